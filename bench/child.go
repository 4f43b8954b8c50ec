// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
)

// childVariable holds the configuration of a node, and makes this program one.
const childVariable = "ATHENA_BENCH_NODE"

// sight is what a node sees, and since when, in nanoseconds of CLOCK_MONOTONIC.
type sight struct {
	At     int64
	Active int
	Leader string // of the quorate leader, empty for none
	Token  uint64
}

// childMain is a node: it says that it is ready, waits for a line, begins, and
// writes each sight on its standard output. It ends with its standard input.
func childMain() error {
	var cfg cluster.Config
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &cfg); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	in := bufio.NewScanner(os.Stdin)
	if err := out.Encode(sight{At: monotonic()}); err != nil {
		return err
	}
	if !in.Scan() {
		return nil
	}
	go func() {
		in.Scan()
		os.Exit(0)
	}()
	node, err := cluster.Start(context.Background(), cfg)
	if err != nil {
		return err
	}
	var last sight
	for range node.Events(context.Background()) {
		s := sight{At: monotonic(), Active: node.View().Members.Count(member.Active)}
		if term, ok := node.Leader(); ok {
			s.Leader, s.Token = term.Leader().Address.String(), term.Token()
		}
		if s.Active == last.Active && s.Leader == last.Leader && s.Token == last.Token {
			continue
		}
		last = s
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	return fmt.Errorf("the node ended: %w", node.Err())
}

// monotonic reads the clock that all processes of a machine share.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(fmt.Sprintf("bench: no monotonic clock: %v", err)) // Linux has it
	}
	return t.Nano()
}
