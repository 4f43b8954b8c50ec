// SPDX-License-Identifier: Apache-2.0

// athena completion: print the script that lets a shell complete the command line.

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/athena-go/athena/cmd/athena/internal/settings"
)

// newCompletion is the verb of cobra's scripts. Cobra's own one takes any shell, and
// says nothing of one that it does not know.
func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "print a script that lets a shell complete verbs, flags and values",
		Long:  "completion prints a script for a shell, which completes the command line of athena.",
		Example: "  source <(athena completion bash)                 # needs bash-completion\n" +
			"  athena completion bash > /etc/bash_completion.d/athena\n" +
			"  athena completion zsh > \"${fpath[1]}/_athena\"\n" +
			"  athena completion fish > ~/.config/fish/completions/athena.fish\n" +
			"  athena completion powershell | Out-String | Invoke-Expression",
		ValidArgs: []cobra.Completion{"bash", "zsh", "fish", "powershell"},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one shell: bash, zsh, fish or powershell")
			}
			if scripts := shellScripts(cmd.Root()); scripts[args[0]] == nil {
				return fmt.Errorf("shell %q: must be bash, zsh, fish or powershell", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return shellScripts(cmd.Root())[args[0]](cmd.OutOrStdout())
		},
	}
}

func shellScripts(root *cobra.Command) map[string]func(io.Writer) error {
	return map[string]func(io.Writer) error{
		"bash":       func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":        root.GenZshCompletion,
		"fish":       func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": root.GenPowerShellCompletionWithDesc,
	}
}

// flagValues are the values of flags that have few, for shells to complete.
var flagValues = map[string][]cobra.Completion{
	"profile":    {"local", "lan", "wan", "classic"},
	"log-format": {"json", "console"},
	"log-level":  {"debug", "info", "warn", "error"},
	"output":     {"table", "json"},
	"script":     {"failover", "partition", "rolling"},
}

// completeValues lets shells complete the values of the flags of all verbs: those
// that are few, files of YAML, folders, and no files where there are none.
func completeValues(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		complete := cobra.NoFileCompletions
		switch values, few := flagValues[f.Name]; {
		case few:
			complete = cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
		case f.Name == settings.ConfigFlag:
			complete = cobra.FixedCompletions([]cobra.Completion{"yaml", "yml"},
				cobra.ShellCompDirectiveFilterFileExt)
		case strings.HasSuffix(f.Name, "dir"):
			complete = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
		case strings.HasSuffix(f.Name, "file") || strings.HasPrefix(f.Name, "tls-") ||
			f.Name == "out" || f.Name == "replay" || f.Name == "shrink":
			return // as shells do it
		}
		if err := cmd.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
			panic(err) // the flag is of this verb
		}
	})
	for _, c := range cmd.Commands() {
		completeValues(c)
	}
}
