// SPDX-License-Identifier: Apache-2.0

// athena help: print the help of a verb or a topic. All help is printed by printHelp.

package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
)

// exitHelp describes the exit codes of a verb, and lists related verbs and topics. If a description
// is empty, the general description applies.
type exitHelp struct {
	done, failed, usage string // for exit codes 0, 1 and 2
	more                []exitCode
	see                 string
}

// exitCode describes an exit code, or several.
type exitCode struct{ code, text string }

const (
	noResponse  = "no response, or not an Athena node"
	nodeRefused = "the node refused or did not respond"
	noOutput    = "could not print the result"
)

// commandCodes are the exit codes of the verbs that run a command, besides 0, 1 and 2.
var commandCodes = []exitCode{
	{"125", "the node refused, stopped or did not respond"},
	{"126", "the command cannot be executed"},
	{"127", "the command was not found"},
	{"128+N", "signal N ended the command, or the wait for a lock"},
	{"other", "exit code of the command, which may also be 1 or 2"},
}

// guardCodes are those of guard.
var guardCodes = []exitCode{
	{"126", "the command cannot be executed"},
	{"127", "the command was not found"},
	{"128+N", "signal N ended the command"},
	{"other", "exit code of the command, which may also be 2"},
}

// exitHelps holds the exitHelp of each verb.
var exitHelps = map[string]exitHelp{
	"run": {
		done:   "stopped, and left the cluster",
		failed: "could not start, or the node failed; see the log",
		see:    "config check, secret new, status, help config, help environment",
	},
	"demo": {
		done:   "stopped by a signal, by --for or at the end of the script",
		failed: "could not start, or the script failed",
		see:    "run, status, members",
	},
	"members": {failed: noResponse, see: "leader, status"},
	"leader": {
		done:   "a majority supports the leader",
		failed: "no leader, no response, or not an Athena node",
		see:    "status",
	},
	"status": {failed: noResponse, see: "members, leader, events"},
	"events": {
		done:   "printed the remembered changes",
		failed: "no response, not an Athena node, or the node stopped during -f",
		see:    "status, members",
	},
	"send": {
		done:   "every recipient handled the event",
		failed: "a recipient did not handle it, or " + nodeRefused,
		see:    "members",
	},
	"transfer": {
		done:   "another member leads",
		failed: "no other member leads, or " + nodeRefused,
		see:    "leader, drain",
	},
	"drain": {
		done:   "the node does not lead",
		failed: "the node leads until another member can, or " + nodeRefused,
		see:    "leader, transfer, leave",
	},
	"prefer": {
		done:   "the preference is set",
		failed: "the node leads until another member can, or " + nodeRefused,
		see:    "members, drain, transfer",
	},
	"label": {done: "the labels are set", failed: nodeRefused, see: "members, prefer"},
	"leave": {done: "the node is leaving", failed: nodeRefused, see: "members, drain"},
	"drill": {
		done:   "the time without a leader was within --max-leaderless",
		failed: "it was not, nothing was killed, or " + nodeRefused,
		see:    "status, transfer, leave",
	},
	"release": {
		done:   "the cluster has at most N members",
		failed: "some seats may remain, or " + nodeRefused,
		see:    "leave, resize, members",
	},
	"jobs": {failed: noResponse, see: "elect, lock"},
	"jobs enable": {
		done:   "the member or host may lead the job",
		failed: nodeRefused,
		see:    "jobs",
	},
	"jobs disable": {
		done:   "the member or host cannot lead the job",
		failed: nodeRefused,
		see:    "jobs",
	},
	"lock": {
		done:   "the command succeeded, or without one a signal ended athena while holding the lock",
		failed: noOutput,
		more: append([]exitCode{
			{"123", "the lock was lost"},
			{"124", "the lock was not acquired within --timeout; see --conflict-exit-code"},
		}, commandCodes...),
		see: "jobs, elect",
	},
	"elect": {
		done:   "the command succeeded, or a signal ended athena",
		failed: noOutput,
		more:   commandCodes,
		see:    "jobs, lock",
	},
	"group": {
		done:   "the command succeeded, or a signal ended athena",
		failed: noOutput,
		more:   commandCodes,
		see:    "elect, config check, help config",
	},
	"sim": {
		done:   "no run violated an invariant",
		failed: "a run violated an invariant",
		see:    "bench",
	},
	"bench": {done: "measured", failed: "a measurement failed", see: "sim"},
	"config check": {
		done:   "no errors; there may be warnings",
		failed: noOutput,
		usage:  "configuration errors, listed on standard error",
		see:    "config show, run, help config, help environment",
	},
	"config show": {
		done:   "no errors",
		failed: noOutput,
		usage:  "configuration errors, listed on standard error",
		see:    "config check, run, help config, help environment",
	},
	"secret new": {
		done:   "created",
		failed: "the file exists already, or could not be created",
		see:    "run",
	},
	"guard": {
		done:   "the command succeeded",
		failed: "the command exited with 1",
		more:   guardCodes,
		see:    "obituary, run",
	},
	"obituary": {
		done:   "a majority knows, a process has the directory, or no member has to know",
		failed: "too few members answered, or the directory cannot be used",
		see:    "guard, run",
	},
	"recover": {
		done:   "the state was removed, or a store with only a token was created",
		failed: "nothing was changed; standard error has the reason",
		see:    "run, resize, status",
	},
	"resize": {
		done:   "the directory has the new size, or no state",
		failed: "nothing was changed; standard error has the reason",
		see:    "run, release, recover",
	},
}

// helpColumns is the width of help texts, and of the narrowest common terminal.
const helpColumns = 80

// reflowText breaks running text into lines of at most helpColumns. Paragraphs with indented lines
// are left unchanged.
func reflowText(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.Contains("\n"+p, "\n ") {
			paragraphs[i] = wrapText(p, 0)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// wrapText breaks a text into lines, and indents all but the first.
func wrapText(text string, indent int) string {
	var b strings.Builder
	column := indent
	for word := range strings.FieldsSeq(text) {
		switch {
		case b.Len() == 0:
		case column+1+len(word) > helpColumns:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// printHelp prints the help of a verb or a topic: purpose, usage, description, examples, flags,
// exit codes, environment and related verbs.
func printHelp(cmd *cobra.Command, _ []string) {
	w := cmd.OutOrStdout()
	purpose := strings.ToUpper(cmd.Short[:1]) + cmd.Short[1:] + "."
	if !cmd.Runnable() && !cmd.HasSubCommands() { // a topic
		fmt.Fprintf(w, "%s\n\n%s\n", purpose, reflowText(cmd.Long))
		return
	}
	usage, rest, _ := strings.Cut(cmd.UsageString(), "\n\n")
	fmt.Fprintf(w, "%s\n\n%s\n\n%s\n\n%s", purpose, usage, reflowText(cmd.Long), rest)
	words := strings.TrimPrefix(cmd.CommandPath(), "athena ")
	n, ok := exitHelps[words]
	if first, _, _ := strings.Cut(words, " "); !ok {
		n = exitHelps[first]
	}
	fmt.Fprint(w, "\nExit codes:\n")
	width := 1
	for _, c := range n.more {
		width = max(width, len(c.code))
	}
	for _, c := range append([]exitCode{
		{"0", cmp.Or(n.done, "success")}, {"1", cmp.Or(n.failed, "failure")},
		{"2", cmp.Or(n.usage, "usage error; nothing was started")},
	}, n.more...) {
		fmt.Fprintf(w, "  %-*s  %s\n", width, c.code, wrapText(c.text, width+4))
	}
	if text := environmentOf(cmd); text != "" {
		fmt.Fprintf(w, "\nEnvironment:\n  %s\n", wrapText(text, 2))
	}
	if n.see != "" {
		see := "athena " + strings.ReplaceAll(n.see, ", ", ", athena ")
		fmt.Fprintf(w, "\nSee also:\n  %s\n", wrapText(see, 2))
	}
}

// adminVariables describes the variables of the verbs that query a node.
const adminVariables = "ATHENA_ADMIN sets --admin, ATHENA_ADMIN_CA sets --admin-ca, and so on " +
	"for each flag --admin-.... Flags override variables."

// environmentOf describes the environment variables that a verb reads.
func environmentOf(cmd *cobra.Command) string {
	flags := cmd.Flags()
	switch {
	case cmd.Name() == "group":
		return "ATHENA_CONFIG sets --config; " + adminVariables
	case flags.Lookup(settings.ConfigFlag) != nil:
		return "Each flag has a variable, such as ATHENA_DATA_DIR for --data-dir; athena help " +
			"environment lists them. Flags override variables, and an empty variable counts as unset. " +
			"XDG_STATE_HOME, or else HOME, determines the default --data-dir."
	case flags.Lookup("admin-token-file") != nil:
		return adminVariables
	case flags.Lookup("admin") != nil:
		return "ATHENA_ADMIN sets --admin. The flag overrides the variable."
	case cmd.Name() == "recover" || cmd.Name() == "resize":
		return "ATHENA_DATA_DIR sets --data-dir. The flag overrides the variable."
	default:
		return ""
	}
}

// newHelp returns the verb help. It replaces cobra's, which exits with 0 for an unknown topic.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB or TOPIC]",
		Short: "print the help of a verb or a topic",
		Long: "The topic environment lists the environment variables; the topic config describes the\n" +
			"configuration file.",
		Example: "  athena help config check\n  athena help environment",
		ValidArgsFunction: func(
			cmd *cobra.Command, args []string, _ string,
		) (words []cobra.Completion, _ cobra.ShellCompDirective) {
			if at, _, err := cmd.Root().Find(args); err == nil {
				for _, c := range at.Commands() {
					words = append(words, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return cli.Usage(fmt.Errorf("unknown verb or topic %q; athena help lists them",
					strings.Join(args, " ")))
			}
			at.SetOut(cmd.OutOrStdout())
			at.InitDefaultHelpFlag()
			printHelp(at, nil)
			return nil
		},
	}
}

// newEnvironment returns the help topic environment.
func newEnvironment() *cobra.Command {
	return &cobra.Command{
		Use:   "environment",
		Short: "list of environment variables",
		Long: "Each flag of athena run has a variable and a key of the --config file. Flags override\n" +
			"variables, variables override the file, and the file overrides the defaults. An empty\n" +
			"variable counts as unset. An unknown variable ATHENA_... causes a warning.\n\n" +
			variableTable() +
			"\nThe verbs that query a node read ATHENA_ADMIN, ATHENA_ADMIN_TOKEN_FILE, ATHENA_ADMIN_CA,\n" +
			"ATHENA_ADMIN_CLIENT_CERT and ATHENA_ADMIN_CLIENT_KEY, demo reads ATHENA_ADMIN, recover and\n" +
			"resize read ATHENA_DATA_DIR. XDG_STATE_HOME, or else HOME, determines the default data\n" +
			"directory. lock, elect and group set variables for their command; their help lists them.",
	}
}

// variableTable returns a table of the variables of athena run.
func variableTable() string {
	var b strings.Builder
	flags := settings.Flags()
	for _, name := range settings.Settable(flags) {
		_, use := pflag.UnquoteUsage(flags.Lookup(name))
		fmt.Fprintf(&b, "  %-27s %s\n", settings.VariableOf(name), wrapText(use, 30))
	}
	return b.String()
}

// needsWrite is the last sentence in the help of each verb that changes something.
const needsWrite = "\n\nThe node must run with --admin-write."
