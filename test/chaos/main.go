// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command chaos runs clusters of real processes under real faults, and checks afterwards from the
// recorded evidence that no promise was broken.
//
//	go run ./chaos run        inject faults, then expect every node to be active
//	go run ./chaos soak       the same for hours, and check for leaks
//	go run ./chaos events     inject faults while all nodes send as fast as they can
//	go run ./chaos stuck      run with a handler that never returns
//	go run ./chaos rolling    restart, upgrade or downgrade each node in turn while all nodes send
//	go run ./chaos witness    let each of two hosts and a witness fail in turn
//	go run ./chaos check DIR  check the evidence of an earlier run again
//	go run ./chaos clean      remove what a killed run left on the machine
//	go run ./chaos -h         list the flags of each
//
// The exit code is 0 if no fault was found, 1 if one was found, 2 for a usage error, and 3 if no
// run is possible on this machine, so that nothing was checked.
//
// Each node is a process in its own network namespace and embeds the library as any program does. A
// bridge in one more namespace connects the nodes; nftables rules cut links and drop packets there.
// This does not touch the network of the host. It needs root, ip and nft.
//
// Every process records when it had authority, what it saw of the cluster, and which events it
// received. All times are those of CLOCK_MONOTONIC, which the processes share, less the offset of a
// process in a time namespace. A register outside the namespaces accepts writes with fencing
// tokens. The checker reads all evidence at the end: docs/chaos.md.
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
	errUsage = errors.New("usage: chaos run|soak|events|stuck|rolling|witness [flags], " +
		"chaos check DIR, " +
		"chaos clean; chaos -h lists the flags")
	errSkipped = errors.New("skipped")
)

// reportFailure prints an error and returns the exit code.
func reportFailure(err error, w io.Writer) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(w, "chaos:", err)
	switch {
	case errors.Is(err, errUsage):
		return 2
	case errors.Is(err, errSkipped), errors.Is(err, errUnproved):
		return 3 // a run that was not checked is not successful
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
	case "run", "soak", "events", "stuck", "rolling", "witness":
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
		case "witness":
			return runWitness(ctx, o, os.Stdout)
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

// recheckFolder checks the evidence of an earlier run.
func recheckFolder(dir string) error {
	f, err := auditFolder(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, killedFile)); err == nil {
		p, err := checkRecordings(dir)
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
