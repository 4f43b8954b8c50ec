// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
)

// TestUnreadableFiles checks that the error names the file and the flag or variable that set it.
func TestUnreadableFiles(t *testing.T) {
	long := configFile(t, "name: a #"+strings.Repeat("x", settings.MaxFileBytes))
	t.Setenv("ATHENA_CONFIG", long)
	wantRefused(t, []usageCase{
		{"missing", []string{"run", "--config", "/nowhere.yaml"},
			[]string{"--config: /nowhere.yaml: no such file; athena help config"}},
		{"folder", []string{"run", "--config", t.TempDir()}, []string{": not a regular file"}},
		{"endless", []string{"run", "--config", "/dev/zero"}, []string{"zero: not a regular file"}},
		{"long", []string{"run"}, []string{"ATHENA_CONFIG: " + long + ": larger than 1 MiB"}},
	})
}

// TestFaultsOfThreeOrigins checks that all faults are reported once, each with its origin, and that
// their consequences are not.
func TestFaultsOfThreeOrigins(t *testing.T) {
	path := configFile(t, "size: three\nseeds:\n  - 127.0.0.1:7001\n  - nowhere\n"+
		"heartbeat-timeout: 2s\nlog-level: all\nother-secret-file: /nowhere/other\ninsecure: true\n"+
		"secret-file: /nowhere/secret\nadmin: '7070'\nmemory: true\n")
	t.Setenv("ATHENA_PROFILE", "moon")
	t.Setenv("ATHENA_JOIN_ONLY", "perhaps")
	t.Setenv("ATHENA_DATA_DIR", "d")
	code, _, stderr := athena("run", "--config", path, "--addr", "nowhere")
	want := []string{
		`ATHENA_JOIN_ONLY="perhaps": must be true or false`,
		path + `:1:7: size "three": must be an integer`,
		`ATHENA_PROFILE "moon": must be local, lan, wan or classic`,
		path + `:6: log-level "all": must be debug, info, warn or error`,
		path + `:10: admin: `,
		path + ":8: insecure contradicts secret-file (" + path + ":9) /nowhere/secret: remove one",
		`--addr "nowhere": must be host:port`,
		path + `:4: seeds[1] "nowhere": `,
		path + `:11: memory contradicts ATHENA_DATA_DIR "d": leave one`,
		path + ":5: heartbeat-timeout 2s must be at most the default --leader-timeout 1s",
		"Run 'athena run --help' for usage.",
	}
	lines := strings.Split(strings.TrimSpace(strings.TrimPrefix(stderr, "athena: ")), "\n")
	for i, line := range lines {
		if code != cli.ExitUsage || len(lines) != len(want) || !strings.HasPrefix(line, want[i]) {
			t.Fatalf("code %d, prints\n%s\nwant, in this order,\n%s", code, stderr, strings.Join(want, "\n"))
		}
	}
}

// TestFaultsWithinOneFile checks that faults within one file name both lines.
func TestFaultsWithinOneFile(t *testing.T) {
	path := configFile(t, sound+"heartbeat-timeout: 2s\nleader-timeout: 1500ms\n")
	code, _, stderr := athena("config", "check", "--config", path)
	want := fmt.Sprintf("athena: %[1]s:5: heartbeat-timeout 2s must be at most leader-timeout "+
		"(%[1]s:6) 1.5s\nRun 'athena config check --help' for usage.\n", path)
	if code != cli.ExitUsage || stderr != want {
		t.Errorf("code %d,\n%s\nwant %d and\n%s", code, stderr, cli.ExitUsage, want)
	}
}

// TestUnreadableFileIsOneFault checks that the consequences of an unreadable file are not reported.
func TestUnreadableFileIsOneFault(t *testing.T) {
	for _, text := range []string{"size: 3\n name: x", "\x00", "- size: 3", "size: 3\n---\nsize: 4"} {
		code, _, stderr := athena("run", "--config", configFile(t, text))
		if code != cli.ExitUsage || strings.Count(stderr, "\n") != 2 {
			t.Errorf("%q: code %d, prints\n%s\nwant %d, one fault and the help line",
				text, code, stderr, cli.ExitUsage)
		}
	}
}

// TestManyFaults checks that the list of faults is limited.
func TestManyFaults(t *testing.T) {
	path := configFile(t, strings.Repeat("x: 1\n", 9999))
	_, _, stderr := athena("config", "check", "--config", path)
	if lines := strings.Count(stderr, "\n"); lines != settings.MaxFaults+2 ||
		!strings.Contains(stderr, "more errors") {
		t.Errorf("%d lines, want %d and the number of the rest:\n%.2000s", lines, settings.MaxFaults+2,
			stderr)
	}
}
