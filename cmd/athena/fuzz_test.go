// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// FuzzSettings gives run any flags and any environment, one to a line. It is asked
// wrongly, and the error names the flag or the variable, or it has a configuration
// that a node takes.
func FuzzSettings(f *testing.F) {
	good := "--addr=127.0.0.1:7001\n--size=3\n--seeds=127.0.0.1:7001\n--insecure\n--memory"
	f.Add(good, "ATHENA_NAME=n\nATHENA_SEED=x\nPATH=/")
	f.Add(good+"\n--admin=unix:/a\n--log-level=debug\n--log-format=json", "ATHENA_PROFILE=wan")
	f.Add("--size\n3\n--ttl-timeout\n-1s\n--profile=slow", "ATHENA_INSECURE=maybe")
	f.Add("--seeds=\"a:1,b:2\n--size=0x10\n--lease-timeout=0", "ATHENA_ADDR=\x00")
	f.Add("--secret-file=/\n--other-secret-file=/dev/null\n--admin=0.0.0.0:1\n--data-dir=d", "")
	f.Add("-h", "ATHENA_")
	f.Fuzz(func(t *testing.T, args, environ string) {
		t.Setenv("HOME", "/h")
		t.Setenv("XDG_STATE_HOME", "")
		var s settings
		flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
		flags.SetOutput(io.Discard)
		flags.Usage = func() {}
		s.define(flags)
		variables := strings.Split(environ, "\n")
		if found := misspelled(variables); len(found) > len(variables) {
			t.Fatalf("%q: misspelled %q", environ, found)
		}
		// Errors of pflag are those of cobra, which FuzzCommands holds.
		if err := flags.Parse(strings.Split(args, "\n")); err != nil {
			return
		}
		if s.file != "" || lookupIn(variables)("ATHENA_CONFIG") != "" {
			return // FuzzFile has files
		}
		c, err := s.read(flags, lookupIn(variables))
		if err != nil {
			checkUsage(t, flags, err)
			return
		}
		if err := c.Validate(); err != nil || (c.DataDir == "") != c.Memory {
			t.Fatalf("%q with %q: %+v, which is refused: %v", args, environ, c, err)
		}
	})
}

func lookupIn(variables []string) func(string) string {
	return func(name string) string {
		for _, v := range variables {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

// checkUsage wants an error that ends the program with 2, and each line of it to
// name a flag, or a variable, and no field of cluster.Config.
func checkUsage(t *testing.T, flags *pflag.FlagSet, err error) {
	t.Helper()
	if _, ok := errors.AsType[usageError](err); !ok {
		t.Fatalf("%v: %v, want a usageError", reflect.TypeOf(err), err)
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		named := slices.ContainsFunc(settable(flags), func(flag string) bool {
			return strings.Contains(line, "--"+flag) || strings.Contains(line, variableOf(flag))
		})
		if !named {
			t.Fatalf("the line %q names no flag", line)
		}
		if word := fieldWord.FindString(line); flagOf[word] != "" {
			t.Fatalf("the line %q begins with a field", line)
		}
	}
}

var fieldWord = regexp.MustCompile(`^[A-Z][A-Za-z]+`)

// FuzzCommands gives the program any command line that asks for nothing but a
// fault: what was asked is wrong at its end, whatever comes before. It ends with 2
// and says what it takes, or it shows its help.
func FuzzCommands(f *testing.F) {
	for _, args := range []string{
		"run\n--addr\n127.0.0.1:7001", "run\n-h", "demo\n--for=1h", "sim\n--seed=1\n--runs=0x2",
		"members\n-o", "leader\n--admin=a:1\n-ojson", "status\nextra", "version\n--x", "", "--help",
		"sim\n--replay=/dev/null\n--shrink=x", "ru", "\x00", "--", "run\n--\n--name",
		"bench", "bench\noneway\n-n=3,5",
	} {
		f.Add(args)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// A flag before it may take the first one for its value.
		args := append(strings.Split(text, "\n"), "--no-such-flag", "--no-such-flag")
		if slices.Contains([]string{"completion", "help", "__complete", "__completeNoDesc"}, args[0]) {
			return // of cobra alone; they run nothing
		}
		code, stdout, stderr := athena(args...)
		switch {
		case code == exitDone && stdout != "" && stderr == "":
		case code != exitUsage || stdout != "":
			t.Fatalf("athena %q: code %d, says %q and %q", args, code, stdout, stderr)
		case !strings.HasPrefix(stderr, "athena: ") || !strings.Contains(stderr, "--help says"):
			t.Fatalf("athena %q: %q", args, stderr)
		}
	})
}
