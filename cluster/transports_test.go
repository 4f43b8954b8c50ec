// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/tlsnet"
)

// logBuffer keeps the log of a node.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// has reports whether a line contains all of the given parts.
func (b *logBuffer) has(parts ...string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
lines:
	for line := range strings.Lines(b.text.String()) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue lines
			}
		}
		return true
	}
	return false
}

func (b *logBuffer) option() cluster.Option {
	return cluster.WithLogger(slog.New(slog.NewTextHandler(b, nil)))
}

// TestTransportsDiffer starts a node whose transport differs from the seed's. The error of Start
// must describe the difference, and both nodes must log it.
func TestTransportsDiffer(t *testing.T) {
	overTLS := cluster.WithTransport(tlsnet.Open)
	for _, test := range []struct {
		name, ours, theirs string // ours is the joining node's transport, theirs the seed's
		node, seed         []cluster.Option
	}{
		{"TLS joins QUIC", "tls", "quic", []cluster.Option{overTLS}, nil},
		{"QUIC joins TLS", "quic", "tls", nil, []cluster.Option{overTLS}},
	} {
		t.Run(test.name, func(t *testing.T) {
			configs := loopbackConfigs(t)
			secret := cluster.NewSecret()
			var logs [2]logBuffer
			for i := range configs {
				configs[i].Secret, configs[i].Seeds = secret, []string{configs[0].Addr}
			}
			begin := func(i int, opts []cluster.Option) (*cluster.Node, error) {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				return cluster.Start(ctx, configs[i], append(opts, logs[i].option())...)
			}
			configs[0].Size, configs[1].Size = 1, 1
			seed, err := begin(0, test.seed)
			if err != nil {
				t.Fatalf("Start of the seed: %v", err)
			}
			t.Cleanup(func() { _ = seed.Close() })
			_, err = begin(1, test.node)
			if _, ok := errors.AsType[*cluster.JoinError](err); !ok {
				t.Fatalf("Start: got %v, want a JoinError", err)
			}
			differ, ok := errors.AsType[*transport.ConfigMismatchError](err)
			if !ok || differ.Field != "Transport" ||
				differ.Ours != test.ours || differ.Theirs != test.theirs {
				t.Errorf("Start: got %v, want one about the transports", err)
			}
			text := "Transport differs: " + test.ours + " here, " + test.theirs + " at the peer"
			if !logs[1].has("WARN", "peer refused", configs[0].Addr, text) {
				t.Errorf("the node that joins logged\n%s\nwant a warning with %q", &logs[1].text, text)
			}
			host, _, _ := net.SplitHostPort(configs[1].Addr)
			text = "Transport differs: " + test.theirs + " here, " + test.ours + " at the peer"
			if !logs[0].has("WARN", "handshake refused", "peer="+host+":", text) {
				t.Errorf("the seed logged\n%s\nwant a warning with %q", &logs[0].text, text)
			}
		})
	}
}
