// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package tlsnet

import (
	"net"
	"time"
)

func roundTrip(net.Conn) time.Duration { return 0 }
