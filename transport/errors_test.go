// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"strings"
	"testing"
)

func TestCloseErrorPrintsThePeerSafely(t *testing.T) {
	err := &CloseError{Code: CodeRefused, Reason: "no\n\x1b[31m", Remote: true}
	if text := err.Error(); strings.ContainsAny(text, "\n\x1b") || !strings.Contains(text, "refused") {
		t.Errorf("text %q holds what the peer sent as it is", text)
	}
}

func TestNamesAreComplete(t *testing.T) {
	for i := range Kinds {
		checkName(t, i.String())
	}
	for i := range codes {
		checkName(t, i.String())
	}
	if got := Code(99).String(); got != "unknown(99)" {
		t.Errorf("a code of a later program: %q", got)
	}
}

func checkName(t *testing.T, name string) {
	t.Helper()
	if name == "" || strings.HasPrefix(name, "unknown") {
		t.Errorf("a name is missing: %q", name)
	}
}
