// SPDX-License-Identifier: Apache-2.0

// Command athena runs a node of a cluster, queries and controls running nodes, runs a demo
// cluster on one machine, and simulates and benchmarks clusters. See athena --help.
//
// The exit code is 0 for success, 1 for failure and 2 for a usage error. After a usage error,
// nothing was started. A verb that runs a command exits with the exit code of the command, and has
// codes of its own for what else can happen; see athena lock --help.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/command"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/test/bench"
)

func main() {
	// A panic or SIGQUIT ends this process by SIGABRT. The exit code 2 of Go would be that of a usage
	// error, after which supervisors do not restart a node.
	debug.SetTraceback("crash")
	if is, err := bench.Child(); is {
		if err != nil {
			fmt.Fprintf(os.Stderr, "athena: %v\n", err)
			os.Exit(cli.ExitFailed)
		}
		return
	}
	os.Exit(executeCommand(time.Now(), os.Args[1:], os.Stdout, os.Stderr))
}

// newRoot returns the root command with all verbs. began is the start time of the process, which
// demo uses to print elapsed times.
func newRoot(began time.Time) *cobra.Command {
	root := &cobra.Command{
		Use:   "athena",
		Short: "join a fixed set of processes into a cluster with one leader",
		Long: "Athena elects one leader with a lease and a fencing token, and tracks the members.\n\n" +
			"Start with athena demo, which runs a whole cluster on this machine. athena run runs one\n" +
			"node.",
		Version:       versionText(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version of this program")
	root.AddCommand(
		newRun(), newDemo(began), newMembers(), newLeader(), newStatus(), newWhy(), newEvents(),
		newSend(), newTransfer(), newDrain(), newPrefer(), newLabel(), newLeave(), newRelease(),
		newDrill(), newJobs(), newLock(), newElect(), newGroup(), newGuard(), newObituary(), newSim(),
		newBench(), newRecover(), newResize(), newVersion(), newConfig(), newSecret(),
		newCompletion(), newEnvironment(),
	)
	root.SetHelpCommand(newHelp())
	root.SetHelpFunc(printHelp)
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), ".LocalFlags.FlagUsages",
		fmt.Sprintf(".LocalFlags.FlagUsagesWrapped %d", helpColumns), 1))
	completeValues(root)
	root.SetFlagErrorFunc(settings.FlagFault)
	return root
}

// executeCommand runs the command line and returns the exit code.
func executeCommand(began time.Time, args []string, stdout, stderr io.Writer) int {
	root := newRoot(began)
	// cobra reports errors in flags and arguments before it calls PersistentPreRun.
	wellFormed := false
	root.PersistentPreRun = func(*cobra.Command, []string) { wellFormed = true }
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	if err != nil && !wellFormed {
		settings.WarnMisspelled(stderr, os.Environ())
	}
	var usage cli.UsageError
	var ended command.ExitCode
	var coded cli.CodeError
	_, isMismatch := errors.AsType[*cluster.StoreMismatchError](err)
	switch {
	case err == nil:
		return cli.ExitDone
	case errors.As(err, &ended):
		return int(ended)
	case isMismatch: // the text states what to do; the usage does not
		fmt.Fprintf(stderr, "athena: %v\n", err)
		return cli.ExitUsage
	case !wellFormed || errors.As(err, &usage):
		fmt.Fprintf(stderr, "athena: %v\nRun '%s --help' for usage.\n", err, cmd.CommandPath())
		return cli.ExitUsage
	default:
		fmt.Fprintf(stderr, "athena: %v\n", err)
		if errors.As(err, &coded) {
			return coded.Code
		}
		return cli.ExitFailed
	}
}
