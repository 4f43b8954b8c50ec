// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command peers measures Athena and other Go libraries for clusters and messages. It measures them
// in turn on one machine, so that the figures of a row can be compared.
//
//	peers failover     from the death of the leader until all others see the next one
//	peers formation    from a cold start until all see each other, and a leader
//	peers detection    from the death of a member until no survivor sees it
//	peers locks        locks per second, with empty and full tables
//	peers messages     one-way messages and requests between two processes
//	peers broadcast    messages of 1 KiB to four processes
//	peers idle         processor time and memory of clusters at rest
//	peers all          all of them, with the settings of docs/performance.md
//	peers table FILE   print the tables of an earlier measurement again
//	peers NAME -h      list the flags
//
// Each repetition measures every peer once. Each measurement writes a file of JSON lines, whose
// first line describes the machine, and prints tables. The ratio of a line is its median divided by
// the median of the peer that -against names.
//
// All members are processes on the loopback interface of a new network namespace. Their stores are
// in memory, so that no figure includes the sync of a disk. Times are those of CLOCK_MONOTONIC,
// which the processes share. README.md describes each peer.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

var errUsage = errors.New("usage error")

const usageText = `usage: peers failover|formation|detection|locks|messages|broadcast|idle [flags]
       peers all [flags of all of them, such as -reps 1]
       peers table [-against PEER] FILE...
       peers NAME -h
`

func main() {
	if text, is := os.LookupEnv(childVariable); is {
		exitOnError(runChild(text))
		return
	}
	if len(os.Args) > 1 && os.Args[1] != "table" {
		exitOnError(enterNamespace())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runCommand(ctx, os.Args[1:])
	stop()
	exitOnError(err)
}

func exitOnError(err error) {
	switch {
	case err == nil:
		return
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "peers:", err)
	if errors.Is(err, errUsage) {
		os.Exit(2)
	}
	os.Exit(1)
}

func runCommand(ctx context.Context, args []string) error {
	if len(args) == 0 {
		args = []string{"-h"}
	}
	switch args[0] {
	case "-h", "-help", "--help", "help":
		fmt.Print(usageText)
		return nil
	case "all":
		return runAll(ctx, args[1:])
	case "table":
		return printTables(args[1:])
	}
	for _, m := range measurements {
		if m.name == args[0] {
			o, err := parseOptions(m, args[1:])
			if err != nil {
				return err
			}
			return m.measure(ctx, o)
		}
	}
	return fmt.Errorf("%w: unknown command %q", errUsage, args[0])
}

// runAll measures everything that docs/performance.md shows, each with the given flags.
func runAll(ctx context.Context, args []string) error {
	for _, command := range [][]string{
		{"failover"},
		{"failover", "-signal", "stop", "-n", "3,5", "-reps", "3", "-out", "peers-failover-stop"},
		{"formation"}, {"detection"}, {"locks"}, {"messages"}, {"broadcast"}, {"idle"},
	} {
		command = append(command, args...)
		fmt.Printf("\n# peers %s\n\n", strings.Join(command, " "))
		if err := runCommand(ctx, command); err != nil {
			return err
		}
	}
	return nil
}
