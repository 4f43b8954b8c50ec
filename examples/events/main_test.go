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
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
)

// screen is the output of one member.
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

// TestChat checks that two of three members can talk.
func TestChat(t *testing.T) {
	var screens [3]screen
	var keyboards [3]io.WriteCloser
	run := func(ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option) error {
		in, out := io.Pipe()
		keyboards[i] = out
		return chat(ctx, cfg, in, &screens[i], opts...)
	}
	athenatest.Run(t, athenatest.Options{Main: run}, func(t *testing.T, c *athenatest.Cluster) {
		for i, line := range []string{"hello", "10.0.0.1:7000 psst", "10.0.0.9:7000 who are you"} {
			fmt.Fprintln(keyboards[i], line)
		}
		c.Advance(time.Second)
		for i, k := range keyboards {
			k.Close()
			if err := c.WaitEnd(i); err != nil {
				t.Errorf("n%d: %v", i, err)
			}
			c.Advance(time.Second)
		}
		for i, want := range [3][]string{
			{"n1 to you: psst", "* n1 at 10.0.0.2:7000 is active"},
			{"n0: hello", "* n0 at 10.0.0.1:7000 is removed, was leaving"},
			{"n0: hello", "* n1 at 10.0.0.2:7000 is removed, was leaving",
				"not sent: cluster: member is not active: 10.0.0.9:7000; " +
					"members: 10.0.0.1:7000 10.0.0.2:7000 10.0.0.3:7000"},
		} {
			got := screens[i].lines()
			for _, line := range want {
				if count(got, line) != 1 {
					t.Errorf("n%d: %q shown %d times, want once in %q", i, line, count(got, line), got)
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

// TestChatEndsWithItsContext checks that chat ends with its context even if its input stays open.
func TestChatEndsWithItsContext(t *testing.T) {
	var keyboard io.Closer
	run := func(ctx context.Context, _ int, cfg cluster.Config, opts ...cluster.Option) error {
		in, out := io.Pipe()
		keyboard = out
		return chat(ctx, cfg, in, io.Discard, opts...)
	}
	opts := athenatest.Options{Size: 1, Main: run}
	athenatest.Run(t, opts, func(_ *testing.T, c *athenatest.Cluster) {
		c.Leave(0)
		keyboard.Close()
	})
}
