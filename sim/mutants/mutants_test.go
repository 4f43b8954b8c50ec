// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	all    = flag.Bool("mutants", false, "build every mutant and run seeds until it is caught")
	one    = flag.String("mutant", "", "the name of the only mutant to run")
	budget = flag.Duration("budget", time.Minute, "real time in which a mutant must be caught")
	seed   = flag.Uint64("seed", 1, "first seed")
)

// root is the folder of the module.
const root = "../.."

// apply is what a mutant makes of its files, by their paths in the module.
func apply(t *testing.T, m Mutant) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, e := range m.Edits {
		if _, ok := files[e.File]; !ok {
			b, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				t.Fatal(err)
			}
			files[e.File] = string(b)
		}
		if n := strings.Count(files[e.File], e.Old); n != 1 || e.Old == e.New {
			t.Fatalf("%s is stale: its text stands %d times in %s, want once:\n%s", m.Name, n, e.File, e.Old)
		}
		files[e.File] = strings.Replace(files[e.File], e.Old, e.New, 1)
	}
	return files
}

func TestMutantsApply(t *testing.T) {
	names := map[string]bool{}
	for _, m := range Table() {
		t.Run(m.Name, func(t *testing.T) {
			if apply(t, m); names[m.Name] || m.Rule == "" || len(m.Edits) == 0 {
				t.Errorf("%+v: want a name of its own, a rule and a change", m)
			}
			names[m.Name] = true
		})
	}
}

// TestMutantsAreCaught builds the simulator once with each bug. It takes some
// seconds each, so it runs only with -mutants or -mutant NAME.
func TestMutantsAreCaught(t *testing.T) {
	if !*all && *one == "" {
		t.Skip("run with -mutants: it takes minutes")
	}
	for _, m := range Table() {
		if *one != "" && m.Name != *one {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			start := time.Now()
			out, caught := sweep(t, m)
			if !caught {
				t.Errorf("%s survives (%s):\n%s", m.Name, m.Rule, out)
				return
			}
			t.Logf("%s, %.1f s: %s", m.Rule, time.Since(start).Seconds(), summary(out))
		})
	}
}

// build builds a command with a mutant and returns its path.
func build(t *testing.T, m Mutant, command string) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for file, text := range apply(t, m) {
		path, err := filepath.Abs(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		replace[path] = filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "command")
	run := exec.Command("go", "build", "-overlay", overlay, "-o", bin, command)
	run.Dir = root
	if b, err := run.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", m.Name, err, b)
	}
	return bin
}

// sweep builds the simulator with a mutant and runs seeds until one fails.
func sweep(t *testing.T, m Mutant) (out string, caught bool) {
	t.Helper()
	return runs(t, m, exec.Command(build(t, m, "./sim/internal/sweep"),
		"-runs", "1000000", "-failures", "1", "-seed", fmt.Sprint(*seed),
		"-budget", budget.String()))
}

// runs runs a command built with a mutant; it is caught when that ends with 1.
func runs(t *testing.T, m Mutant, command *exec.Cmd) (out string, caught bool) {
	t.Helper()
	b, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("running %s: %v\n%s", m.Name, err, b)
	}
	return string(b), err != nil
}

// summary is the violation that the first failed run reports.
func summary(out string) string {
	seed := ""
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "seed "):
			seed, _, _ = strings.Cut(line, ",")
		case seed != "" && !strings.HasPrefix(line, "no"):
			return fmt.Sprintf("%s: %.120s", seed, line)
		}
	}
	return out
}
