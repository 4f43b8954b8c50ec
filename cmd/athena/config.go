// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/store"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "look at the configuration of a node before it is started",
		Long: "config says what athena run would make of a file, the variables and the flags, and\n" +
			"starts nothing.\n\n" + aboutFile,
		Example: "  athena config check --config athena.yaml\n" +
			"  ATHENA_SIZE=5 athena config show --config athena.yaml --profile wan",
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("say what to do with the configuration: check or show")}
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
	var s settings
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
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			warnMisspelled(cmd.ErrOrStderr(), os.Environ())
			c, err := s.settle(cmd.Flags(), os.Getenv)
			if err != nil {
				return usageError{err}
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
	s.define(cmd.Flags())
	return cmd
}

// settle is all that run does before it opens anything: read, and what shows only on
// this machine. The configuration is sound where there is no error. A usageError does
// not get better by starting again.
func (s *settings) settle(f *pflag.FlagSet, getenv func(string) string) (cluster.Config, error) {
	c, wrong := s.read(f, getenv)
	var here []error
	if err := store.CheckFolder(s.flightRecorder); s.flightRecorder != "" && err != nil {
		here = append(here, fmt.Errorf("%s: %w", given(f, "flight-recorder"),
			allowed(err, "flight-recorder")))
	}
	if s.admin != adminOff {
		err := admin.TryListen(s.admin, s.access()...)
		if err != nil && !errors.Is(err, admin.ErrAddress) { // of which read has told
			here = append(here, fmt.Errorf("%s: %w", given(f, "admin"), err))
		}
	}
	if wrong != nil { // else it is not known which store and address it must be
		return c, usageError{errors.Join(append([]error{wrong}, here...)...)}
	}
	if err := c.CheckAddr(); err != nil {
		here = append(here, flagError{err, f})
	}
	err := c.CheckStore()
	mismatch, isMismatch := errors.AsType[*cluster.StoreMismatchError](err)
	switch {
	case isMismatch:
		return c, usageError{errors.Join(append(here, storeFault(f, mismatch))...)}
	case err != nil:
		here = append(here, allowed(flagError{err, f}, "data-dir"))
	}
	return c, errors.Join(here...)
}

// storeFault is a store of something else in the words of flags.
func storeFault(f *pflag.FlagSet, e *cluster.StoreMismatchError) error {
	return errors.New(e.Text(given(f, "cluster"), given(f, "size"), given(f, "advertise"),
		"--join-only"))
}

func newConfigShow() *cobra.Command {
	var s settings
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
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			warnMisspelled(cmd.ErrOrStderr(), os.Environ())
			c, wrong := s.read(cmd.Flags(), os.Getenv)
			return errors.Join(s.show(cmd.OutOrStdout(), cmd.Flags(), c, output), wrong)
		},
	}
	s.define(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

// checkOutput wants a value that --output has.
func checkOutput(output string) error {
	if output != "table" && output != "json" {
		return usageError{fmt.Errorf("--output %q: must be table or json", output)}
	}
	return nil
}

// shown is one setting as config show prints it.
type shown struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
	From  string `json:"from"`         // default, file, env or flag
	At    string `json:"at,omitempty"` // FILE:LINE, the variable or the flag
}

// show prints the settings of a resolved configuration.
func (s *settings) show(w io.Writer, f *pflag.FlagSet, c cluster.Config, output string) error {
	insecure, anywhere := s.config.Insecure, s.config.InsecureAnywhere
	s.config = c.WithDefaults() // the flags point into it
	// Without a secret the configuration says insecure by itself, which run refuses.
	s.config.Insecure, s.config.InsecureAnywhere = insecure, anywhere
	var all []shown
	for _, name := range settable(settingFlags()) {
		o := originOf(f, name)
		all = append(all, shown{name, valueOf(f.Lookup(name)), o.from, o.at})
	}
	if output == "json" {
		return printJSON(w, all)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tVALUE\tFROM")
	for _, one := range all {
		value := strconv.Quote(f.Lookup(one.Key).Value.String())
		if plain := value[1 : len(value)-1]; plain != "" && !strings.Contains(plain, `\`) {
			value = plain
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", one.Key, value, strings.TrimSpace(one.From+" "+one.At))
	}
	return t.Flush()
}

// printJSON prints what -o json asks for.
func printJSON(w io.Writer, what any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(what)
}

// valueOf is the value of a flag as JSON has it: times as text.
func valueOf(f *pflag.Flag) any {
	text := f.Value.String()
	switch f.Value.Type() {
	case "int":
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
	case "bool":
		return text == "true"
	case (seedList{}).Type():
		return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
	}
	return text
}
