// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

type output struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.out.Write(p)
}

// TestShow runs the program in virtual time and checks its output.
func TestShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, dir := memnet.New(), t.TempDir()
		start := func(ctx context.Context, addr string) (*cluster.Node, error) {
			at, err := member.ParseAddress(addr)
			if err != nil {
				return nil, err
			}
			listen := func(transport.Config) (transport.Network, error) { return net.Listen(at) }
			return cluster.Start(ctx, config(dir, addr), cluster.WithTransport(listen),
				cluster.WithClock(time.Now), cluster.WithLogger(slog.New(slog.DiscardHandler)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var got output
		if err := show(ctx, &got, start); err != nil {
			t.Fatalf("show: %v\n%s", err, got.out.String())
		}
		want := regexp.MustCompile(`^(127.0.0.1:710[123] (is looking for the seed|is the seed)\n){3}` +
			`(127.0.0.1:710[23] has joined\n){2}` +
			`127.0.0.1:710\d leads with token 1000000000000\n` +
			`127.0.0.1:7101 crashed\n` +
			`127.0.0.1:710[23] leads with token \d+000000000000\n` +
			`127.0.0.1:7101 has restarted\n$`)
		if !want.MatchString(got.out.String()) {
			t.Errorf("got\n%swant a match for\n%s", got.out.String(), want)
		}
	})
}
