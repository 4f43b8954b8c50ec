// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package tlsnet

import "syscall"

const canTryWrite = false

func tryWrite(syscall.RawConn, []byte) (int, error) { return 0, nil }
