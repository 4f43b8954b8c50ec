// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// screen is what one member sees.
type screen struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

func (s *screen) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Split(s.out.String(), "\n")
}

// TestChat: three members, of whom two talk.
func TestChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := memnet.New()
		seeds := []string{"127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:7003"}
		var screens [3]screen
		var keyboards [3]io.WriteCloser
		var ended sync.WaitGroup
		for i, addr := range seeds {
			in, out := io.Pipe()
			keyboards[i] = out
			ended.Go(func() {
				cfg := cluster.Config{Addr: addr, Name: fmt.Sprint("n", i+1), Seeds: seeds, Size: 3}
				err := chat(t.Context(), cfg, in, &screens[i], cluster.WithClock(time.Now),
					cluster.WithTransport(listen(t, net, addr)), cluster.WithLogger(zerolog.Nop()))
				if err != nil {
					t.Errorf("%s: %v", cfg.Name, err)
				}
			})
		}
		time.Sleep(5 * time.Second)
		for i, line := range []string{"hello", "127.0.0.1:7001 psst", "127.0.0.1:7009 who are you"} {
			fmt.Fprintln(keyboards[i], line)
		}
		time.Sleep(time.Second)
		for _, k := range keyboards {
			k.Close()
			time.Sleep(5 * time.Second)
		}
		ended.Wait()
		for i, want := range [3][]string{
			{"n2 to you: psst", "* n2 at 127.0.0.1:7002 is active"},
			{"n1: hello", "* n1 at 127.0.0.1:7001 is removed, was leaving"},
			{"n1: hello", "* n2 at 127.0.0.1:7002 is removed, was leaving",
				"not sent: cluster: member is not active: 127.0.0.1:7009; " +
					"members: 127.0.0.1:7001 127.0.0.1:7002 127.0.0.1:7003"},
		} {
			got := screens[i].lines()
			for _, line := range want {
				if count(got, line) != 1 {
					t.Errorf("n%d: %q shown %d times, want once in %q", i+1, line, count(got, line), got)
				}
			}
		}
	})
}

func count(lines []string, want string) int {
	n := 0
	for _, l := range lines {
		if l == want {
			n++
		}
	}
	return n
}

// TestChatEndsWithItsContext, although nobody closes its input.
func TestChatEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		defer out.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cfg := cluster.Config{Addr: "127.0.0.1:7001", Size: 1}
		err := chat(ctx, cfg, in, io.Discard, cluster.WithClock(time.Now),
			cluster.WithTransport(listen(t, memnet.New(), cfg.Addr)), cluster.WithLogger(zerolog.Nop()))
		if err != nil {
			t.Errorf("got %v, want nil", err)
		}
	})
}

func listen(t *testing.T, net *memnet.Network, addr string) cluster.Listen {
	t.Helper()
	at, err := member.ParseAddress(addr)
	if err != nil {
		t.Fatal(err)
	}
	return func(c transport.Config) (*transport.Mesh, error) { return net.Listen(at, c) }
}
