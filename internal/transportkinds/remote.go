// SPDX-License-Identifier: Apache-2.0

package transportkinds

import (
	"net"

	"github.com/athena-go/athena/member"
)

// AddressOf returns the address of a socket, or the zero Address if it has no valid one.
func AddressOf(a net.Addr) member.Address {
	if a == nil {
		return member.Address{}
	}
	addr, err := member.ParseAddress(a.String())
	if err != nil {
		return member.Address{}
	}
	return addr
}
