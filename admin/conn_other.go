// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package admin

import "net"

// setUserTimeout does nothing: this system has no TCP_USER_TIMEOUT.
func setUserTimeout(net.Conn) {}

// localCaller returns "": this system does not tell which process connected to a Unix socket.
func localCaller(net.Conn) string { return "" }
