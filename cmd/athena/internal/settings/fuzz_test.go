// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
)

// FuzzSettings reads arbitrary flags and environments, one entry per line. It checks that either
// the error names the flag or the variable, or the configuration is valid.
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
		var s Settings
		flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
		flags.SetOutput(io.Discard)
		flags.Usage = func() {}
		s.Define(flags)
		variables := strings.Split(environ, "\n")
		if found := Misspelled(variables); len(found) > len(variables) {
			t.Fatalf("%q: misspelled %q", environ, found)
		}
		// FuzzCommands tests the errors of pflag.
		if err := flags.Parse(strings.Split(args, "\n")); err != nil {
			return
		}
		if s.file != "" || lookupIn(variables)("ATHENA_CONFIG") != "" {
			return // FuzzFile tests files
		}
		c, err := s.Read(flags, lookupIn(variables))
		if err != nil {
			checkUsage(t, flags, err)
			return
		}
		if err := c.Validate(); err != nil || (c.DataDir == "") != c.Memory {
			t.Fatalf("%q with %q: %+v, which is invalid: %v", args, environ, c, err)
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

// checkUsage checks that err is a cli.UsageError, and that each of its lines names a flag or a
// variable but no field of cluster.Config.
func checkUsage(t *testing.T, flags *pflag.FlagSet, err error) {
	t.Helper()
	if _, ok := errors.AsType[cli.UsageError](err); !ok {
		t.Fatalf("%v: %v, want a UsageError", reflect.TypeOf(err), err)
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		named := slices.ContainsFunc(Settable(flags), func(flag string) bool {
			return strings.Contains(line, "--"+flag) || strings.Contains(line, VariableOf(flag))
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
