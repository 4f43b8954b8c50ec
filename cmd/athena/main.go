// SPDX-License-Identifier: Apache-2.0

// Command athena runs nodes of a cluster, asks them what they see, shows a
// whole cluster on one machine, simulates clusters, and measures them. See athena --help.
//
// It exits with 0 if it did what was asked, with 1 if it could not, and with 2 for a usage
// error, in which case nothing was started. A verb that runs a command exits as the command
// does.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/command"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/internal/bench"
)

func main() {
	if is, err := bench.Child(); is {
		if err != nil {
			fmt.Fprintf(os.Stderr, "athena: %v\n", err)
			os.Exit(cli.ExitFailed)
		}
		return
	}
	os.Exit(executeCommand(time.Now(), os.Args[1:], os.Stdout, os.Stderr))
}

// newRoot makes the program with all its verbs. began is when it started; demo counts
// from it.
func newRoot(began time.Time) *cobra.Command {
	root := &cobra.Command{
		Use:   "athena",
		Short: "joins a fixed set of processes into a cluster: one leader, one list of members",
		Long: "Athena joins a fixed set of processes into a cluster. It elects one leader with a\n" +
			"lease and a fencing token, and tracks members.\n\n" +
			"athena demo shows a whole cluster on this machine, athena run is one node of your own.",
		Version:       versionText(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version of this program")
	root.AddCommand(
		newRun(), newDemo(began), newMembers(), newLeader(), newStatus(), newEvents(), newSend(),
		newTransfer(), newDrain(), newLeave(), newJobs(), newLock(), newElect(),
		newSim(), newBench(), newRecover(),
		newVersion(), newConfig(), newSecret(), newCompletion(), newEnvironment(),
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
	// What cobra finds wrong with flags and arguments comes up before this.
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
	switch {
	case err == nil:
		return cli.ExitDone
	case errors.As(err, &ended):
		return int(ended)
	case !wellFormed || errors.As(err, &usage):
		fmt.Fprintf(stderr, "athena: %v\n%s --help says what it takes\n", err, cmd.CommandPath())
		return cli.ExitUsage
	default:
		fmt.Fprintf(stderr, "athena: %v\n", err)
		return cli.ExitFailed
	}
}
