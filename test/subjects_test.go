// SPDX-License-Identifier: Apache-2.0

package test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// subjectsSince is the commit after which all subjects follow CONTRIBUTING.md.
const subjectsSince = "4d4025d169399411f2a325dd21a23f18af4e2c32"

var subjectForm = regexp.MustCompile(`^[A-Za-z0-9_./, -]+: [a-z].*[^.]$`)

// checkSubject returns what is wrong with the subject of a commit, or "".
func checkSubject(subject string) string {
	switch {
	case len(subject) > 72:
		return "longer than 72 columns"
	case !subjectForm.MatchString(subject):
		return "not of the form \"package: what it does\", without a full stop"
	}
	return ""
}

func TestCommitSubjects(t *testing.T) {
	for subject, fault := range map[string]string{
		"cluster: close links without frames":                 "",
		"cmd/athena, docs: name the holder":                   "",
		"close links without frames":                          "form",
		"cluster: close links.":                               "form",
		"cluster: Close links":                                "form",
		"cluster: " + strings.Repeat("close links ", 5) + "":  "",
		"cluster: " + strings.Repeat("close links ", 6) + "x": "72",
	} {
		if got := checkSubject(subject); (got == "") != (fault == "") || !strings.Contains(got, fault) {
			t.Errorf("%q: got %q, want %q", subject, got, fault)
		}
	}
	out, err := exec.Command("git", "log", "--no-merges", "--format=%h %s",
		subjectsSince+"..HEAD").Output()
	if err != nil {
		t.Skip("no history since ", subjectsSince, ": not a full clone")
	}
	for line := range strings.Lines(string(out)) {
		commit, subject, _ := strings.Cut(strings.TrimSpace(line), " ")
		if fault := checkSubject(subject); fault != "" {
			t.Errorf("commit %s, %q: %s (CONTRIBUTING.md)", commit, subject, fault)
		}
	}
}
