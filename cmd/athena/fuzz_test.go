// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
)

// FuzzCommands runs any command line that ends with an unknown flag. It checks that the program
// either exits with 2 and a usage error, or prints its help.
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
		// The unknown flag is added twice, since a flag at the end of text may take the first copy as its
		// value.
		args := append(strings.Split(text, "\n"), "--no-such-flag", "--no-such-flag")
		if slices.Contains([]string{"completion", "help", "__complete", "__completeNoDesc"}, args[0]) {
			return // these commands accept any arguments and run nothing
		}
		code, stdout, stderr := athena(args...)
		switch {
		case code == cli.ExitDone && stdout != "" && stderr == "":
		case code != cli.ExitUsage || stdout != "":
			t.Fatalf("athena %q: code %d, prints %q and %q", args, code, stdout, stderr)
		case !strings.HasPrefix(stderr, "athena: ") || !strings.Contains(stderr, "--help' for usage."):
			t.Fatalf("athena %q: %q", args, stderr)
		}
	})
}
