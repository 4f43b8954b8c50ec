// SPDX-License-Identifier: Apache-2.0

// athena config: check the configuration of a node, or show where each value comes from.

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "look at the configuration of a node before it is started",
		Long: "config says what athena run would make of a file, the variables and the flags, and\n" +
			"starts nothing.\n\n" + aboutFile,
		Example: "  athena config check --config athena.yaml\n" +
			"  ATHENA_SIZE=5 athena config show --config athena.yaml --profile wan",
		Args: cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usage(errors.New("say what to do with the configuration: check or show"))
		},
	}
	cmd.AddCommand(newConfigCheck(), newConfigShow())
	return cmd
}

// aboutFile says what a configuration file is.
const aboutFile = "The file of --config, or ATHENA_CONFIG, is YAML: one line for each flag of\n" +
	"athena run, without its dashes. What it does not say has its default; variables win over\n" +
	"the file, and flags over both. Paths are relative to the folder in which the node is\n" +
	"started.\n\n" +
	"  addr: 10.0.0.1:7000\n" +
	"  size: 3\n" +
	"  seeds: [10.0.0.1:7000, 10.0.0.2:7000]\n" +
	"  secret-file: /etc/athena/secret\n" +
	"  heartbeat-interval: 100ms\n\n" +
	"Times have a unit. A key that is none, a key given twice, a value of another type, an\n" +
	"alias, a second document and more than 1 MiB are faults, and the node does not start."

func newConfigCheck() *cobra.Command {
	var s settings.Settings
	cmd := &cobra.Command{
		Use:   "check",
		Short: "say everything that is wrong with a configuration",
		Long: "check takes the flags, the variables and the file of athena run, and says what run\n" +
			"would refuse, every fault at once, each with where it is and what to do: values and how\n" +
			"they go together, the files of secrets, tokens and certificates, and, once these are\n" +
			"sound, whether this machine has the addresses to listen on, and the data directory is of\n" +
			"this cluster and can be read and written. So run it where the node will run, as the user\n" +
			"that will run it: athena run begins with the same.\n\n" +
			"It takes no port and no lock and makes nothing, so that it can run beside the node, and\n" +
			"before each start. A port or a data directory in use, and what other nodes say, shows only\n" +
			"when the node starts. A flag that is unknown, or has a value of another type, ends it at\n" +
			"once.",
		Example: "  athena config check --config athena.yaml\n" +
			"  athena config check --config athena.yaml && systemctl restart athena",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings.WarnMisspelled(cmd.ErrOrStderr(), os.Environ())
			c, err := s.Settle(cmd.Flags(), os.Getenv)
			if err != nil {
				return cli.Usage(err)
			}
			c = c.WithDefaults()
			if c.Cluster == cluster.DefaultCluster {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: the cluster has the default name %q: give "+
					"each cluster a name of its own (--cluster), so that no node joins the wrong one\n",
					c.Cluster)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "no fault: node %s of cluster %q, %d members\n",
				c.Advertise, c.Cluster, c.Size)
			return err
		},
	}
	s.Define(cmd.Flags())
	return cmd
}

func newConfigShow() *cobra.Command {
	var s settings.Settings
	var output string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "print every value that a node would have, and where it comes from",
		Long: "show takes the flags, the variables and the file of athena run, and prints the value\n" +
			"of each flag that the node would run with, and where it comes from: default, file, env or\n" +
			"flag. Of a secret it prints the name of its file alone. Where something is wrong it\n" +
			"prints what it can, and then the faults.",
		Example: "  athena config show --config athena.yaml\n" +
			"  athena config show -o json | jq '.[] | select(.from != \"default\")'",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.CheckOutput(output); err != nil {
				return err
			}
			settings.WarnMisspelled(cmd.ErrOrStderr(), os.Environ())
			c, wrong := s.Read(cmd.Flags(), os.Getenv)
			all := s.Effective(cmd.Flags(), c)
			return errors.Join(printEffective(cmd.OutOrStdout(), all, output), wrong)
		},
	}
	s.Define(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

// printEffective prints settings as a table or as JSON.
func printEffective(w io.Writer, all []settings.Effective, output string) error {
	if output == "json" {
		return cli.PrintJSON(w, all)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tVALUE\tFROM")
	for _, one := range all {
		value := strconv.Quote(one.Text)
		if plain := value[1 : len(value)-1]; plain != "" && !strings.Contains(plain, `\`) {
			value = plain
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", one.Key, value, strings.TrimSpace(one.From+" "+one.At))
	}
	return t.Flush()
}
