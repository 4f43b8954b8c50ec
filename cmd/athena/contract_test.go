// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
)

// contract lists the verbs and flags that scripts depend on, with the defaults of the flags. Flags
// may be added but not removed.
var contract = map[string]map[string]string{
	"run": {
		"addr": "", "advertise": "", "name": "", "cluster": "athena", "size": "0", "seeds": "",
		"data-dir": "", "memory": "false", "profile": "lan",
		"heartbeat-interval": "0s", "heartbeat-timeout": "0s", "leader-timeout": "0s",
		"lease-timeout": "0s", "ttl-timeout": "0s", "retry-interval": "0s",
		"secret-file": "", "tls-ca": "", "tls-cert": "", "tls-key": "",
		"insecure": "false", "insecure-anywhere": "false",
		"admin": "off", "admin-write": "false", "admin-token-file": "",
		"admin-cert": "", "admin-key": "", "admin-client-ca": "",
		"config": "", "log-format": "console", "log-level": "info", "join-only": "false",
	},
	"demo":     {"size": "5", "for": "0s", "admin": "127.0.0.1:7070", "script": ""},
	"members":  {"admin": "127.0.0.1:7070", "output": "table"},
	"leader":   {"admin": "127.0.0.1:7070", "output": "table"},
	"status":   {"admin": "127.0.0.1:7070", "output": "table"},
	"events":   {"admin": "127.0.0.1:7070", "output": "table", "follow": "false"},
	"send":     {"admin": "127.0.0.1:7070", "output": "table", "to": ""},
	"transfer": {"admin": "127.0.0.1:7070", "output": "table", "to": ""},
	"drain":    {"admin": "127.0.0.1:7070", "output": "table"},
	"prefer":   {"admin": "127.0.0.1:7070", "output": "table"},
	"label":    {"admin": "127.0.0.1:7070", "output": "table"},
	"leave":    {"admin": "127.0.0.1:7070", "output": "table", "admin-token-file": ""},
	"drill": {"admin": "127.0.0.1:7070", "output": "table", "member": "", "yes": "false",
		"max-leaderless": "2s", "back-within": "1m0s"},
	"release": {"admin": "127.0.0.1:7070", "output": "table", "keep": "0"},
	"jobs": {"admin": "127.0.0.1:7070", "output": "table", "admin-token-file": "",
		"changes": "false"},
	"jobs enable":  {"admin": "127.0.0.1:7070", "output": "table", "host": ""},
	"jobs disable": {"admin": "127.0.0.1:7070", "output": "table", "host": ""},
	"lock": {"admin": "127.0.0.1:7070", "output": "table", "timeout": "0s", "permits": "0",
		"kill-after": "10s", "conflict-exit-code": "124", "holder": ""},
	"elect": {"admin": "127.0.0.1:7070", "output": "table", "listen": "false",
		"kill-after": "10s", "holder": ""},
	"group": {"admin": "127.0.0.1:7070", "output": "table", "config": "", "strategy": "",
		"grace": "15s", "sample": "1s", "alive": "10s", "campaign": "5s", "hold": "1m0s",
		"retry-for": "0s", "kill-after": "10s"},
	"guard":         {"config": "", "size": "0", "data-dir": "", "kill-after": "10s"},
	"obituary":      {"config": "", "size": "0", "data-dir": ""},
	"sim":           {"seed": "0", "runs": "100", "size": "0", "for": "0s"},
	"bench":         {},
	"config check":  {"config": "", "size": "0"},
	"config show":   {"config": "", "size": "0", "output": "table"},
	"secret new":    {},
	"recover":       {},
	"resize":        {},
	"version":       {"output": "table"},
	"completion":    {},
	"bench idle":    {"output": "table"},
	"bench oneway":  {"output": "table"},
	"bench stream":  {"output": "table"},
	"bench request": {"output": "table"},
}

// short maps flags to their one-letter names.
var short = map[string]string{
	"output": "o", "help": "h", "follow": "f", "listen": "l", "permits": "n",
	"conflict-exit-code": "E",
}

// verb returns the command for a verb.
func verb(t *testing.T, words string) *cobra.Command {
	t.Helper()
	cmd, rest, err := newRoot(time.Now()).Find(strings.Fields(words))
	if err != nil || len(rest) > 0 || words != strings.TrimPrefix(cmd.CommandPath(), "athena ") {
		t.Fatalf("athena %s: not a verb: %v", words, err)
	}
	return cmd
}

// TestContract checks the names and defaults that scripts depend on.
func TestContract(t *testing.T) {
	for words, flags := range contract {
		cmd := verb(t, words)
		for name, want := range flags {
			f := cmd.Flags().Lookup(name)
			if f == nil || f.Hidden {
				t.Errorf("athena %s has no --%s", words, name)
				continue
			}
			if f.DefValue != want || f.Shorthand != short[name] {
				t.Errorf("athena %s --%s: default %q, -%s; want %q, -%s",
					words, name, f.DefValue, f.Shorthand, want, short[name])
			}
		}
	}
}

// everyVerb calls f with each command, including the help topics.
func everyVerb(f func(*cobra.Command)) {
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		f(cmd)
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(newRoot(time.Now()))
}

// TestHelp checks that the help of each verb has a purpose, usage, example and exit codes, and fits
// in 80 columns.
func TestHelp(t *testing.T) {
	verbs := 0
	everyVerb(func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		isTopic := !cmd.Runnable() && !cmd.HasSubCommands()
		if path != "athena" && !isTopic && (cmd.Long == "" || cmd.Example == "") {
			t.Errorf("%s: no Long or no Example", path)
		}
		code, stdout, stderr := athena(append(strings.Fields(path)[1:], "--help")...)
		if code != cli.ExitDone || stderr != "" {
			t.Errorf("%s --help: code %d, error %q", path, code, stderr)
		}
		for i, line := range strings.Split(stdout, "\n") {
			if len(line) > helpColumns && !strings.Contains(line, "http") {
				t.Errorf("%s --help: line %d has %d columns: %s", path, i+1, len(line), line)
			}
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if strings.Contains(f.Usage, "\n") {
				t.Errorf("%s --%s: %q contains a newline; help wraps lines by itself",
					path, f.Name, f.Usage)
			}
		})
		if isTopic {
			return
		}
		verbs++
		for _, want := range []string{"Usage:\n", "\nExit codes:\n  0  ", "\n  1  ", "\n  2  "} {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s --help\n%s\nwant %q in it", path, stdout, want)
			}
		}
		same := append([]string{"help"}, strings.Fields(path)[1:]...)
		if _, again, _ := athena(same...); again != stdout {
			t.Errorf("athena %q prints\n%s\nwant the output of --help\n%s", same, again, stdout)
		}
	})
	if verbs < len(contract) {
		t.Errorf("%d verbs, want %d at least", verbs, len(contract))
	}
}

// TestReflowText checks that running text is wrapped and indented text stays unchanged.
func TestReflowText(t *testing.T) {
	full := strings.Repeat("x", helpColumns-3)
	for _, c := range [][2]string{
		{"", ""},
		{"a\nb c\n\nd", "a b c\n\nd"},
		{full + "\nyz\nand", full + " yz\nand"},
		{full + "\nxyz", full + "\nxyz"},
		{full + full, full + full},
		{"list:\n  a\n  b\n\nc\nd", "list:\n  a\n  b\n\nc d"},
	} {
		if got := reflowText(c[0]); got != c[1] {
			t.Errorf("%q: %q, want %q", c[0], got, c[1])
		}
	}
}

// TestExitHelps checks that each entry of exitHelps belongs to a verb and refers to existing verbs
// and topics.
func TestExitHelps(t *testing.T) {
	for words, n := range exitHelps {
		verb(t, words)
		for see := range strings.SplitSeq(n.see, ", ") {
			verb(t, strings.TrimPrefix(see, "help "))
		}
	}
}

// TestEnvironmentTopic checks that the topic has a line for each variable.
func TestEnvironmentTopic(t *testing.T) {
	code, stdout, _ := athena("help", "environment")
	f := settings.Flags()
	for _, name := range settings.Settable(f) {
		want := "\n  " + settings.VariableOf(name) + " "
		if code != cli.ExitDone || !strings.Contains(stdout, want) {
			t.Errorf("code %d,\n%s\nwant %q in it", code, stdout, want)
		}
	}
	wantRefused(t, []usageCase{
		{"no topic", []string{"help", "frob"}, []string{`unknown verb or topic "frob"`}},
		{"no topic below", []string{"help", "config", "frob"},
			[]string{`unknown verb or topic "config frob"`}},
	})
}

// TestCompletion checks that each shell gets a script and that flag values are completed.
func TestCompletion(t *testing.T) {
	for shell, want := range map[string]string{
		"bash": "__start_athena", "zsh": "#compdef athena", "fish": "complete -c athena",
		"powershell": "Register-ArgumentCompleter -CommandName 'athena'",
	} {
		code, stdout, stderr := athena("completion", shell)
		if code != cli.ExitDone || !strings.Contains(stdout, want) || stderr != "" {
			t.Errorf("%s: code %d, error %q, %.200q; want %q in it", shell, code, stderr, stdout, want)
		}
	}
	wantRefused(t, []usageCase{
		{"another shell", []string{"completion", "tcsh"}, []string{`shell "tcsh": must be bash, zsh`}},
		{"no shell", []string{"completion"}, []string{"one shell required"}},
	})
	for _, c := range []struct{ line, want string }{
		{"run --profile ", "local\nlan\nwan\nclassic\n:4\n"},
		{"run --log-level w", "warn\nerror\n:4\n"},
		{"config show -o ", "table\njson\n:4\n"},
		{"run --config ", "yaml\nyml\n:8\n"},
		{"run --data-dir ", ":16\n"},
		{"run --addr ", ":4\n"},
		{"conf", "config\t"},
		{"config c", "check\t"},
		{"help conf", "config\t"},
		{"completion z", "zsh\n"},
	} {
		words := append([]string{"__complete"}, strings.Split(c.line, " ")...)
		if _, stdout, _ := athena(words...); !strings.Contains(stdout, c.want) {
			t.Errorf("athena %s<Tab>: %q, want %q", c.line, stdout, c.want)
		}
	}
}

// TestFlagValues checks that athena run accepts all completed values.
func TestFlagValues(t *testing.T) {
	for _, name := range []string{"profile", "log-format", "log-level"} {
		for _, value := range flagValues[name] {
			code, _, stderr := athena("config", "check", "--config", configFile(t, sound), "--"+name, value)
			if code != cli.ExitDone {
				t.Errorf("--%s %s: code %d, %s", name, value, code, stderr)
			}
		}
	}
	var names []string
	everyVerb(func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	})
	for name := range flagValues {
		if !slices.Contains(names, name) {
			t.Errorf("--%s is a flag of no verb", name)
		}
	}
}

// TestVersionForScripts checks that -o json has the same values as the text.
func TestVersionForScripts(t *testing.T) {
	code, stdout, stderr := athena("version", "-o", "json")
	var got about
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != cli.ExitDone ||
		stderr != "" ||
		got != thisProgram() || got.Protocol == 0 || !strings.Contains(versionText(), got.Build) {
		t.Errorf("code %d, %v, error %q, %q, want %+v", code, err, stderr, stdout, thisProgram())
	}
	wantRefused(t, []usageCase{{"output", []string{"version", "-o", "xml"}, []string{"table or json"}},
		{"output of bench", []string{"bench", "idle", "-o", "csv"}, []string{"table or json"}},
		{"output of show", []string{"config", "show", "-o", "yaml"}, []string{"table or json"}},
	})
}
