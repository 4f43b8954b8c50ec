// SPDX-License-Identifier: Apache-2.0

//go:build unix

package quicnet

import (
	"testing"
	"time"

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
	socket, err := Listen("127.0.0.1:0")
	if err != nil {
		return nil, member.Address{}, err
	}
	config, err := SecretTLS([][]byte{[]byte(secret)}, "test", time.Now)
	if err != nil {
		return nil, member.Address{}, err
	}
	at, err := member.ParseAddress(socket.LocalAddr().String())
	if err != nil {
		return nil, member.Address{}, err
	}
	n, err := New(Config{Config: c, Conn: socket, TLS: config})
	return n, at, err
}
