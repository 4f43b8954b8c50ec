// SPDX-License-Identifier: Apache-2.0

// athena completion: print a completion script for a shell.

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

// newCompletion returns the verb completion. It replaces cobra's, which exits with 0 for an
// unknown shell.
func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "print a completion script for a shell",
		Long:  "The script completes verbs, flags and the values of flags.",
		Example: "  source <(athena completion bash)                 # needs bash-completion\n" +
			"  athena completion bash > /etc/bash_completion.d/athena\n" +
			"  athena completion zsh > \"${fpath[1]}/_athena\"\n" +
			"  athena completion fish > ~/.config/fish/completions/athena.fish\n" +
			"  athena completion powershell | Out-String | Invoke-Expression",
		ValidArgs: []cobra.Completion{"bash", "zsh", "fish", "powershell"},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("one shell required: bash, zsh, fish or powershell")
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

// flagValues lists the values of each flag that accepts only a few words.
var flagValues = map[string][]cobra.Completion{
	"profile":    {"local", "lan", "wan", "classic"},
	"transport":  {"quic", "tls"},
	"log-format": {"json", "console"},
	"log-level":  {"debug", "info", "warn", "error"},
	"output":     {"table", "json"},
	"strategy":   {"quorum", "lowest", "static", "standby"},
	"script":     {"failover", "partition", "rolling"},
}

// completeValues registers completions for the flags of cmd and of all its subcommands: words, YAML
// files, directories, or no files.
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
			strings.HasPrefix(f.Name, "admin-") && f.Value.Type() == "string" ||
			f.Name == "out" || f.Name == "replay" || f.Name == "shrink":
			return // by default, the shell completes any file
		}
		if err := cmd.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
			panic(err) // impossible: the flag belongs to cmd
		}
	})
	for _, c := range cmd.Commands() {
		completeValues(c)
	}
}
