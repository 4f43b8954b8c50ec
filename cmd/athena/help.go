// SPDX-License-Identifier: Apache-2.0

// athena help: print what a verb does, or a topic; and how the help of all verbs is laid out.

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

// verbNotes are the parts of the help of a verb that cobra does not make. An empty exit code
// gets a general text.
type verbNotes struct {
	done, failed, wrong string // what the exit codes 0, 1 and 2 mean
	see                 string // verbs and topics
}

// notes has the notes of each verb.
var notes = map[string]verbNotes{
	"run": {
		done:   "stopped by a signal, and left the cluster in order",
		failed: "could not start, or the node failed: the log says which",
		see:    "config check, secret new, status, help config, help environment",
	},
	"demo": {
		done:   "ended by a signal, by --for or by the script",
		failed: "could not start, or the script did not come to its end",
		see:    "run, status, members",
	},
	"members": {failed: "no response, or not an Athena node", see: "leader, status"},
	"leader": {
		done:   "there is a leader with authority",
		failed: "there is none, or no response",
		see:    "status",
	},
	"status": {failed: "no response, or not an Athena node", see: "members, leader, events"},
	"events": {
		done:   "printed what the node remembers",
		failed: "no response, or the node ended while it was followed",
		see:    "status, members",
	},
	"send": {
		done:   "every member has handled it",
		failed: "one of them has not, or the node refused, or no response",
		see:    "members",
	},
	"transfer": {
		done:   "another member leads",
		failed: "none does, or the node refused, or no response",
		see:    "leader, drain",
	},
	"drain": {
		done:   "the node lets other members lead",
		failed: "it leads until another can, or it refused, or no response",
		see:    "leader, transfer, leave",
	},
	"leave": {
		done:   "the node is about to leave",
		failed: "it refused, or no response",
		see:    "members, drain",
	},
	"jobs": {failed: "no response, or not an Athena node", see: "elect, lock"},
	"jobs enable": {
		done:   "the member may lead the job",
		failed: "the node refused, or no response",
		see:    "jobs",
	},
	"jobs disable": {
		done:   "the member leads the job no more",
		failed: "the node refused, or no response",
		see:    "jobs",
	},
	"lock": {
		done:   "interrupted while it held the lock, or as the command says",
		failed: "the lock could not be had, or was lost, or as the command says",
		wrong:  "usage error; nothing was started; or as the command says",
		see:    "jobs, elect",
	},
	"elect": {
		done:   "interrupted, or as the command says",
		failed: "the node refused or is gone, or as the command says",
		wrong:  "usage error; nothing was started; or as the command says",
		see:    "jobs, lock",
	},
	"sim": {
		done:   "every run was clean",
		failed: "a promise was broken, and what happened was printed",
		see:    "bench",
	},
	"bench": {done: "measured", failed: "a measurement could not be made", see: "sim"},
	"config check": {
		done:   "no fault: athena run would take it",
		failed: "could not print",
		wrong:  "faults, each on standard error",
		see:    "config show, run, help config, help environment",
	},
	"config show": {
		done:   "printed, and no fault",
		failed: "could not print",
		wrong:  "faults, on standard error after what could be printed",
		see:    "config check, run, help config, help environment",
	},
	"secret new": {
		done:   "made",
		failed: "the file is there already, or cannot be made",
		see:    "run",
	},
	"recover": {
		done:   "the state was forgotten",
		failed: "nothing was forgotten: standard error says why",
		see:    "run, status",
	},
}

// helpColumns is the width of help: that of the narrowest common terminal.
const helpColumns = 80

// reflowText breaks running text into lines of helpColumns. Paragraphs with indented lines stay
// as they are.
func reflowText(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.Contains("\n"+p, "\n ") {
			paragraphs[i] = wrapText(p, 0)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// wrapText breaks a text into lines that are indented, except for the first one.
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

// printHelp prints the help of a verb or a topic.
func printHelp(cmd *cobra.Command, _ []string) {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s\n", reflowText(cmp.Or(cmd.Long, cmd.Short)))
	if !cmd.Runnable() && !cmd.HasSubCommands() {
		return // a topic
	}
	fmt.Fprintf(w, "\n%s", cmd.UsageString())
	words := strings.TrimPrefix(cmd.CommandPath(), "athena ")
	n, ok := notes[words]
	if first, _, _ := strings.Cut(words, " "); !ok {
		n = notes[first]
	}
	fmt.Fprint(w, "\nExit codes:\n")
	for code, text := range []string{
		cmp.Or(n.done, "done"), cmp.Or(n.failed, "failed"),
		cmp.Or(n.wrong, "usage error; nothing was started"),
	} {
		fmt.Fprintf(w, "  %d  %s\n", code, wrapText(text, 5))
	}
	if text := environmentOf(cmd); text != "" {
		fmt.Fprintf(w, "\nEnvironment:\n  %s\n", wrapText(text, 2))
	}
	if n.see != "" {
		see := "athena " + strings.ReplaceAll(n.see, ", ", ", athena ")
		fmt.Fprintf(w, "\nSee also:\n  %s\n", wrapText(see, 2))
	}
}

// environmentOf returns which variables a verb reads.
func environmentOf(cmd *cobra.Command) string {
	flags := cmd.Flags()
	switch {
	case flags.Lookup(settings.ConfigFlag) != nil:
		return "Every flag that has a line in athena help environment can be given as a variable, as " +
			"--data-dir by ATHENA_DATA_DIR. Flags win, and an empty variable counts as unset. Without " +
			"--data-dir and --memory, XDG_STATE_HOME or HOME says where the state directory is."
	case flags.Lookup("admin") != nil:
		return "ATHENA_ADMIN stands for --admin" + tokenOf(flags) + "; the flag wins."
	case cmd.Name() == "recover":
		return "ATHENA_DATA_DIR stands for --data-dir; the flag wins."
	default:
		return ""
	}
}

func tokenOf(flags *pflag.FlagSet) string {
	if flags.Lookup("admin-token-file") == nil {
		return ""
	}
	return ", ATHENA_ADMIN_TOKEN_FILE for --admin-token-file"
}

// newHelp returns the verb help. That of cobra exits with 0 for an unknown topic.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB or TOPIC]",
		Short: "say what a verb does, or tell about a topic",
		Long: "help says the same as --help after a verb. It has topics besides: environment lists\n" +
			"the variables, config tells of the file.",
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
				return cli.Usage(fmt.Errorf("%q is no verb and no topic; athena help lists them",
					strings.Join(args, " ")))
			}
			at.SetOut(cmd.OutOrStdout())
			at.InitDefaultHelpFlag()
			printHelp(at, nil)
			return nil
		},
	}
}

// newEnvironment returns the topic environment of help.
func newEnvironment() *cobra.Command {
	return &cobra.Command{
		Use:   "environment",
		Short: "the variables that stand for flags",
		Long: "Each flag of athena run has a variable and a key of the file of --config. Flags win\n" +
			"over variables, variables over the file, and the file over defaults; an empty variable\n" +
			"counts as unset. Any other variable ATHENA_... causes a warning.\n\n" + variableTable() +
			"\nAll verbs that ask a node, and demo, read ATHENA_ADMIN, all but demo\n" +
			"ATHENA_ADMIN_TOKEN_FILE too; recover reads ATHENA_DATA_DIR. XDG_STATE_HOME and HOME say\n" +
			"where the default data directory is. lock and elect set variables for their command, which\n" +
			"their help names.",
	}
}

// variableTable returns a table of the variables of run.
func variableTable() string {
	var b strings.Builder
	flags := settings.Flags()
	for _, name := range settings.Settable(flags) {
		_, use := pflag.UnquoteUsage(flags.Lookup(name))
		fmt.Fprintf(&b, "  %-27s %s\n", settings.VariableOf(name), wrapText(use, 30))
	}
	return b.String()
}

// needsWrite is what the help of each verb that acts says at its end.
const needsWrite = "\n\nThe node must have been started with --admin-write."
