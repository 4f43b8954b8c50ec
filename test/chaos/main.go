// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command chaos runs clusters of real processes under real faults, and checks
// afterwards from what they wrote down that no promise was broken.
//
//	go run ./chaos run        faults for a while, then everybody must be active
//	go run ./chaos soak       the same for hours, and whether anything leaks
//	go run ./chaos events     faults while all send as fast as they can
//	go run ./chaos stuck      a handler that never returns
//	go run ./chaos rolling    each node is restarted in order while all send
//	go run ./chaos check DIR  the evidence of an earlier run again
//	go run ./chaos clean      what a run that was killed left behind
//	go run ./chaos -h         the flags of each
//
// It ends with 0 when nothing was wrong, 1 when something was, 2 for wrong usage,
// and 3 where no run is possible, since then nothing was checked.
//
// Each node is a process in a network namespace of its own, which embeds the
// library as any program does. A bridge in one more namespace joins them, where
// rules of nftables cut and thin the links: nothing of it touches the network of
// the host, and nothing leaves the machine. It needs root, ip and nft.
//
// Every process writes down when it had authority, by CLOCK_MONOTONIC, which is
// one clock for all of them; what it saw of the cluster; and which events it
// got. A register outside of the namespaces takes writes with fencing tokens.
// The checker reads all that when everything is over: docs/chaos.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
)

func main() {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(childMain(role))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runCommand(ctx, os.Args[1:])
	stop()
	os.Exit(reportFailure(err, os.Stderr))
}

var (
	errUsage = errors.New("usage: chaos run|soak|events|stuck|rolling [flags], chaos check DIR, " +
		"chaos clean; chaos -h lists the flags")
	errSkipped = errors.New("skipped")
)

// reportFailure says what was wrong, and returns the exit code.
func reportFailure(err error, w io.Writer) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(w, "chaos:", err)
	switch {
	case errors.Is(err, errUsage):
		return 2
	case errors.Is(err, errSkipped), errors.Is(err, errUnproved):
		return 3 // who runs this wants the check and nothing else
	default:
		return 1
	}
}

func isHelp(arg string) bool {
	return slices.Contains([]string{"help", "-h", "-help", "--help"}, arg)
}

func runCommand(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	switch name := args[0]; name {
	case "run", "soak", "events", "stuck", "rolling":
		o, err := parseFlags(name, args[1:])
		if err != nil {
			return err
		}
		if reason := ""; !o.plain {
			if reason = whyUnable(); reason != "" {
				return fmt.Errorf("%w: %s; nothing was checked", errSkipped, reason)
			}
		}
		switch name {
		case "events":
			return runEvents(ctx, o, newFloodPlan(o), os.Stdout)
		case "stuck":
			return runStuck(ctx, o, os.Stdout)
		case "rolling":
			return runRolling(ctx, o, os.Stdout)
		}
		return runChaos(ctx, o, os.Stdout)
	case "check":
		if len(args) != 2 || isHelp(args[1]) {
			return errUsage
		}
		return recheckFolder(args[1])
	case "clean":
		if len(args) != 1 {
			return errUsage
		}
		if err := needsRoot(); err != nil {
			return err
		}
		return cleanLeftovers()
	default:
		if isHelp(name) {
			printHelp(os.Stdout)
			return nil
		}
		return errUsage
	}
}

// recheckFolder checks the evidence of an earlier run, a flood or not.
func recheckFolder(dir string) error {
	f, err := auditFolder(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, killedFile)); err == nil {
		p, err := checkTapes(dir)
		if err != nil {
			return err
		}
		p.printCounts(os.Stdout, true)
		f.lacks = nil
		return errors.Join(p.formVerdict(), f.formVerdict())
	}
	f.printFindings(os.Stdout)
	return f.formVerdict()
}
