// SPDX-License-Identifier: Apache-2.0

//go:build unix

package tlsnet

import (
	"testing"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/test/transporttest"
	"github.com/athena-go/athena/transport"
)

func BenchmarkConnect(b *testing.B) { transporttest.BenchmarkConnect(b, openBench) }
func BenchmarkForm(b *testing.B)    { transporttest.BenchmarkForm(b, openBench) }
func BenchmarkSend(b *testing.B)    { transporttest.BenchmarkSend(b, openBench) }
func BenchmarkIdle(b *testing.B)    { transporttest.BenchmarkIdle(b, openBench) }

// openBench implements transporttest.Open.
func openBench(c transport.Config) (transport.Network, member.Address, error) {
	c.Addr, c.TLS = "127.0.0.1:0", secretTLS
	n, err := Open(c)
	if err != nil {
		return nil, member.Address{}, err
	}
	at, err := member.ParseAddress(n.(*network).listener.Addr().String())
	return n, at, err
}
