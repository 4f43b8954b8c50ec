// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestForbiddenFile checks that a permission error gets the path, the user and a remedy, and that
// other errors are unchanged.
func TestForbiddenFile(t *testing.T) {
	forbidden := &fs.PathError{Op: "open", Path: "/d/athena.state", Err: fs.ErrPermission}
	got := Allowed(flagError{forbidden, pflag.NewFlagSet("run", pflag.ContinueOnError)}, "data-dir")
	for _, want := range []string{
		"runs as user ", "owner of /d/athena.state", "grant the user access", "--data-dir",
	} {
		if !strings.Contains(got.Error(), want) || !errors.Is(got, fs.ErrPermission) {
			t.Errorf("got %v, want %q in it", got, want)
		}
	}
	missing := &fs.PathError{Op: "open", Path: "/d", Err: fs.ErrNotExist}
	if got := Allowed(missing, "data-dir"); got != error(missing) {
		t.Errorf("got %v, want %v", got, missing)
	}
}
