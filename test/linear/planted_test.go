// SPDX-License-Identifier: Apache-2.0

package linear

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var planted = flag.Bool("planted", false, "plant bugs that TestHistories must refuse")

// bug replaces texts in files of Athena, which must each occur once.
type bug struct {
	name  string
	edits [][3]string // file, old text, new text
}

const leaderRecords = "statemachine/leaderrecords.go"

var bugs = []bug{
	{"a lock is granted to two", [][3]string{
		{
			leaderRecords, "if e.Token != c.Token || e.Revoked && !c.Token.IsZero() {",
			"if !c.Token.IsZero() && (e.Token != c.Token || e.Revoked) {",
		},
		{leaderRecords, "if e.IsOwned() && e.Owner != r.from {", "if e.IsOwned() && e.Owner == r.from {"},
	}},
	{"a release frees the lock of another", [][3]string{
		{
			"internal/holding/slot.go",
			"s.commit(ctx, record.Op{Kind: record.Held, Key: s.Key, Token: token},\n",
			"s.commit(ctx,\n",
		},
		{
			leaderRecords, "\t\tcase e.IsOwned() && e.Owner != r.from:\n",
			"\t\tcase e.IsOwned() && e.Key == \"\":\n",
		},
	}},
	{"a change takes an old record for the present one", [][3]string{
		{
			leaderRecords, "if e.Token != c.Token || e.Revoked && !c.Token.IsZero() {",
			"if e.Token.IsZero() != c.Token.IsZero() || e.Revoked && !c.Token.IsZero() {",
		},
	}},
	{"the answer of a commit comes before its majority", [][3]string{
		{
			leaderRecords, "\tm.lead.answerAt = d.number\n",
			"\tm.lead.answerAt = d.number\n\tm.answerAll()\n",
		},
	}},
}

// TestPlanted runs TestHistories on each bug, which must find a history that is not linearizable.
func TestPlanted(t *testing.T) {
	if !*planted {
		t.Skip("run with -planted: it builds Athena for each bug")
	}
	for _, b := range bugs {
		t.Run(b.name, func(t *testing.T) {
			run := exec.Command("go", "test", "-overlay", writeOverlay(t, b), "-count=1",
				"-run", "^TestHistories$", ".", "-worlds", "20")
			out, err := run.CombinedOutput()
			if err == nil || !strings.Contains(string(out), errRefused.Error()) {
				t.Errorf("not refused: %v\n%s", err, out)
			}
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, errRefused.Error()) {
					t.Log(line)
					break
				}
			}
		})
	}
}

// writeOverlay writes the changed files of a bug and returns the path of the file for -overlay.
func writeOverlay(t *testing.T, b bug) string {
	t.Helper()
	dir, replace, changed := t.TempDir(), map[string]string{}, map[string]string{}
	for _, e := range b.edits {
		path, err := filepath.Abs(filepath.Join("../..", e[0]))
		if err != nil {
			t.Fatal(err)
		}
		if changed[path] == "" {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			changed[path] = string(text)
		}
		if n := strings.Count(changed[path], e[1]); n != 1 {
			t.Fatalf("the text to replace occurs %d times in %s, want once:\n%s", n, e[0], e[1])
		}
		changed[path] = strings.Replace(changed[path], e[1], e[2], 1)
		replace[path] = filepath.Join(dir, strings.ReplaceAll(e[0], "/", "-"))
		if err := os.WriteFile(replace[path], []byte(changed[path]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestPlantedApply checks that the texts of all bugs are in the source.
func TestPlantedApply(t *testing.T) {
	for _, b := range bugs {
		writeOverlay(t, b)
	}
}
