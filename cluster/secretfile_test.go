// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSecretFileIsReadAndChecked checks that the line end of a secret file is not part of the
// secret. Each fault of the file must be reported once, as a fault of SecretFile.
func TestSecretFileIsReadAndChecked(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good", string(testSecret)+"\r\n")
	s, err := with(func(c *Config) { c.Addr, c.SecretFile = "10.0.0.1:7000", good }).parse()
	if err != nil || string(s.Secret) != string(testSecret) || s.Insecure {
		t.Errorf("secret %q, insecure %v, %v; want the one of the file", s.Secret, s.Insecure, err)
	}
	for _, c := range []configCase{
		{"both", with(func(c *Config) { c.Secret, c.SecretFile = testSecret, good }),
			"SecretFile contradicts Secret"},
		{"missing", with(func(c *Config) { c.SecretFile = filepath.Join(dir, "none") }),
			"SecretFile open "},
		{"password", with(func(c *Config) { c.SecretFile = write("password", "secret") }),
			"SecretFile " + dir},
		{"insecure", with(func(c *Config) { c.SecretFile, c.Insecure = good, true }),
			"Insecure true: contradicts SecretFile"},
	} {
		c.check(t)
	}
}
