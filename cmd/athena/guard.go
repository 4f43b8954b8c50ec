// SPDX-License-Identifier: Apache-2.0

// athena guard and athena obituary: announce that the process of a node has ended.

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/command"
	"github.com/athena-go/athena/cmd/athena/internal/daemon"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
)

// aboutEnds is the help text shared by guard and obituary.
const aboutEnds = "" +
	"The proof is the lock of --data-dir, which the operating system frees only when the process\n" +
	"is gone. So a directory on a network file system is refused, and nothing is announced while a\n" +
	"process holds the lock: it is the next run, or has not ended. The failure of a host or\n" +
	"network, and a paused process, are noticed when the leases expire.\n\n" +
	"The flags, variables and file are those of athena run; the node may be another program that\n" +
	"embeds Athena. Only flags about the node itself, its timings, secret and transport matter."

func newGuard() *cobra.Command {
	var s settings.Settings
	var killAfter time.Duration
	cmd := &cobra.Command{
		Use:   "guard [-- COMMAND ARGUMENT...]",
		Short: "run a node, and inform the others as soon as its process ends",
		Long: "guard runs COMMAND, which runs a node: athena run with the same flags by default.\n" +
			"When the process ends, even by SIGKILL or lack of memory, guard informs the other members.\n" +
			"They elect another leader within milliseconds, instead of waiting for the leases to expire,\n" +
			"and free its locks and jobs.\n\n" + aboutEnds + "\n\n" +
			"The command inherits standard input, output and error, and its process group receives the\n" +
			"signals sent to athena. If it exits before other processes of its group, they get SIGTERM\n" +
			"after a second, then SIGKILL after --kill-after; another node may lead already. On Linux\n" +
			"the command gets SIGTERM if guard is killed. guard exits with the exit code of the command,\n" +
			"and can be process 1 of a container.",
		Example: "  athena guard --config athena.yaml\n" +
			"  athena guard --config athena.yaml -- ./server --config athena.yaml",
		Args: func(cmd *cobra.Command, args []string) error { return checkDash(cmd, args, 0) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if killAfter <= 0 {
				return cli.Usage(fmt.Errorf("--kill-after %v: must be positive", killAfter))
			}
			if len(args) == 0 {
				var err error
				if args, err = runWith(cmd.Flags()); err != nil {
					return err
				}
			}
			if _, err := readGuarded(&s, cmd.Flags()); err != nil {
				return err
			}
			child, err := command.New(cmd, args)
			if err != nil {
				return err
			}
			return guardCommand(child, killAfter, cmd.Flags(), cmd.ErrOrStderr())
		},
	}
	s.Define(cmd.Flags())
	cmd.Flags().DurationVar(&killAfter, "kill-after", defaultKillAfter,
		"time between SIGTERM and SIGKILL for the processes of the command")
	return cmd
}

// readGuarded reads the configuration of a node whose end can be announced.
func readGuarded(s *settings.Settings, f *pflag.FlagSet) (cluster.Config, error) {
	c, err := s.Read(f, os.Getenv)
	if err != nil {
		return c, cli.Usage(err)
	}
	if err := c.CheckAnnounce(); err != nil {
		return c, cli.Usage(settings.InFlags(err, f))
	}
	return c, nil
}

// runWith returns the command line of athena run with the flags that were given.
func runWith(f *pflag.FlagSet) ([]string, error) {
	self, err := os.Executable()
	args := []string{self, "run"}
	f.Visit(func(f *pflag.Flag) {
		if f.Name != "kill-after" {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return args, err
}

// guardCommand runs a command, and announces its end before other processes of its group end. If
// one of these has the data directory, guardCommand announces their end too.
func guardCommand(
	c *command.Command, killAfter time.Duration, f *pflag.FlagSet, errOut io.Writer,
) error {
	signals := command.NewInterrupts()
	defer signals.Stop()
	var announced chan error
	c.Signals, c.KillAfter = signals, killAfter
	c.OnExit = func() {
		announced = make(chan error, 1)
		go func() { announced <- announceEnd(f, errOut) }()
	}
	ended := c.Run(signals)
	if announced == nil {
		return ended
	}
	err := <-announced
	if errors.Is(err, cluster.ErrRunning) {
		err = announceEnd(f, errOut)
	}
	if err != nil && !errors.Is(err, cluster.ErrRunning) {
		fmt.Fprintf(errOut, "athena: %v\n", err)
	}
	return ended
}

// announceEnd announces the end of the node with the given flags. It reads the configuration again,
// because secrets may have changed while the node ran.
func announceEnd(f *pflag.FlagSet, errOut io.Writer) error {
	s, flags, c, err := settings.Reread(f, os.Getenv)
	if err != nil {
		return err
	}
	if err = daemon.AnnounceEnd(s, c, errOut); err != nil {
		err = settings.InFlags(err, flags)
	}
	return err
}

func newObituary() *cobra.Command {
	var s settings.Settings
	cmd := &cobra.Command{
		Use:   "obituary",
		Short: "inform the members that the process of a node has ended",
		Long: "obituary does once what athena guard does when its command ends. Run it on the machine\n" +
			"of the node, as its user, when a supervisor finds that the process has ended, such as in\n" +
			"ExecStopPost= of systemd. It takes a few milliseconds, a fifth of a second with more than\n" +
			"seven members, and half of --leader-timeout if too few members answer. It returns after at\n" +
			"most 2 s, even if the disk does not answer.\n\n" +
			aboutEnds,
		Example: "  athena obituary --config athena.yaml",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readGuarded(&s, cmd.Flags())
			if err != nil {
				return err
			}
			err = daemon.AnnounceEnd(&s, c, cmd.ErrOrStderr())
			if err == nil || errors.Is(err, cluster.ErrRunning) {
				return nil
			}
			return settings.InFlags(err, cmd.Flags())
		},
	}
	s.Define(cmd.Flags())
	return cmd
}
