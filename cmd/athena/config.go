// SPDX-License-Identifier: Apache-2.0

// athena config: check the configuration of a node, or show the origin of each value.

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
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
		Short: "check or print the configuration of a node",
		Long: "config reads the flags, variables and file that athena run would read, and starts\n" +
			"nothing.\n\n" + aboutFile,
		Example: "  athena config check --config athena.yaml\n" +
			"  ATHENA_SIZE=5 athena config show --config athena.yaml --profile wan",
		Args: cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usage(errors.New("subcommand missing: must be check or show"))
		},
	}
	cmd.AddCommand(newConfigCheck(), newConfigShow())
	return cmd
}

// aboutFile is the help text about the configuration file.
const aboutFile = "The file named by --config or ATHENA_CONFIG is YAML. Its keys are the flags\n" +
	"of athena run without the dashes. A key that is absent keeps its default; variables override\n" +
	"the file, and flags override both. Paths are relative to the working directory.\n\n" +
	"  addr: 10.0.0.1:7000\n" +
	"  size: 3\n" +
	"  seeds: [10.0.0.1:7000, 10.0.0.2:7000]\n" +
	"  secret-file: /etc/athena/secret\n" +
	"  heartbeat-interval: 100ms\n\n" +
	"The key groups sets flags of athena group by the name of the group:\n\n" +
	"  groups:\n" +
	"    delivery: {strategy: lowest, alive: 10s}\n\n" +
	"Durations need a unit. Unknown or duplicate keys, values of the wrong type, aliases,\n" +
	"a second document and files above 1 MiB are errors."

func newConfigCheck() *cobra.Command {
	var s settings.Settings
	cmd := &cobra.Command{
		Use:   "check",
		Short: "report every error in the configuration of a node",
		Long: "check takes the flags, variables and file of athena run and reports all errors at\n" +
			"once, each with its position and how to fix it. It checks the values, the secret, token and\n" +
			"certificate files, the listen addresses and the data directory. Run it on the machine\n" +
			"of the node, as the user that runs the node. It resolves names for at most 3 seconds and\n" +
			"warns of addresses that other nodes cannot reach.\n\n" +
			"check opens no port, takes no lock and creates nothing, so it can run beside the node.\n" +
			"It cannot detect a port or data directory in use, or a conflict with other nodes; those\n" +
			"appear only when the node starts. Warnings do not change the exit code.\n\n" +
			"If only a file is given, and it has only the key groups, check checks the groups.",
		Example: "  athena config check --config athena.yaml\n" +
			"  athena config check --config athena.yaml && systemctl restart athena",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings.WarnMisspelled(cmd.ErrOrStderr(), os.Environ())
			groups, err := settings.CheckGroups(cmd.Flags(), os.Getenv)
			if err == nil && len(groups) > 0 {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "no errors: groups %s, and no node\n",
					strings.Join(groups, ", "))
				return err
			}
			if err != nil {
				return cli.Usage(err)
			}
			c, err := s.Settle(cmd.Flags(), os.Getenv)
			if err != nil {
				return cli.Usage(err)
			}
			c = c.WithDefaults()
			for _, o := range settings.Overrides(cmd.Flags()) {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: %s has no effect: %s overrides it\n",
					o.At, o.Key, o.By)
			}
			warnRisks(cmd.ErrOrStderr(), c)
			warnAddresses(cmd.Context(), cmd.ErrOrStderr(), c, net.DefaultResolver.LookupNetIP)
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "no errors: node %s of cluster %q, %d members\n",
				c.Advertise, c.Cluster, c.Size)
			return err
		},
	}
	s.Define(cmd.Flags())
	return cmd
}

// warnRisks writes a warning for each valid but risky choice in c.
func warnRisks(w io.Writer, c cluster.Config) {
	if c.Cluster == cluster.DefaultCluster {
		fmt.Fprintf(w, "warning: the cluster has the default name %q: set --cluster to a unique name, "+
			"so that no node joins the wrong cluster\n", c.Cluster)
	}
	if c.OmitsSelf() {
		fmt.Fprintf(w, "warning: --seeds names as many nodes as --size, but not %s: unless this node "+
			"replaces one of them, correct --advertise or --seeds\n", c.Advertise)
	}
	if len(c.Seeds) == 2 && c.Size > 2 { // a cluster of two needs both nodes anyway
		fmt.Fprintln(w, "warning: with two seeds, both must be up before the cluster can form: "+
			"list three or more nodes in --seeds")
	}
}

func newConfigShow() *cobra.Command {
	var s settings.Settings
	var output string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "print the effective value and the origin of each setting",
		Long: "show takes the flags, variables and file of athena run and prints the value that the\n" +
			"node would use for each flag, and its origin: default, file, env or flag. It prints the\n" +
			"paths of secret files, not their contents. If there are errors, it prints the values that\n" +
			"it could read, then the errors.",
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
