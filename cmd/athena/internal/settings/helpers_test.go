// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"os"
	"path/filepath"
	"testing"
)

// Two secrets of valid length.
const (
	testSecret  = "DtqIQXDG2kJw18xWQ4PL2FytV5wmOw4G8bwJUTZHaeg="
	otherSecret = "RSlX9s8Hu81SooNo2txGhdNM/mx976RKTj4sWAVXlgw="
)

// writeSecret writes a secret file and returns its path.
func writeSecret(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	return writeFile(t, "secret", text, mode)
}

// writeConfig writes a configuration file and returns its path.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	return writeFile(t, "athena.yaml", text, 0o600)
}

func writeFile(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}
