// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/athena-go/athena/transport/quicnet"
)

// FuzzReadSecret reads arbitrary files and checks that the secret is a prefix of the file,
// followed only by line ends.
func FuzzReadSecret(f *testing.F) {
	sound := []byte("DtqIQXDG2kJw18xWQ4PL2FytV5wmOw4G8bwJUTZHaeg=")
	f.Add([]byte(nil), uint16(0o600))
	f.Add(sound, uint16(0o640))
	f.Add(append(bytes.Clone(sound), "\r\n\n"...), uint16(0o400))
	f.Add(bytes.Repeat([]byte("\n"), maxSecretBytes), uint16(0o600))
	f.Add(bytes.Repeat([]byte("s"), maxSecretBytes+1), uint16(0o600))
	path := filepath.Join(f.TempDir(), "secret")
	f.Fuzz(func(t *testing.T, content []byte, mode uint16) {
		perm := os.FileMode(mode)&0o777 | 0o400
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, perm); err != nil {
			t.Fatal(err)
		}
		secret, err := ReadSecret(path)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		private := runtime.GOOS == "windows" || perm&0o077 == 0
		good := private && len(content) <= maxSecretBytes &&
			quicnet.CheckSecret(bytes.TrimRight(content, "\r\n")) == nil
		switch {
		case (err == nil) != good:
			t.Fatalf("%q, mode %v: %v", content, perm, err)
		case err != nil && (secret != nil || !strings.HasPrefix(err.Error(), path+": ")):
			t.Fatalf("%q, mode %v: %q with the error %v", content, perm, secret, err)
		case err == nil && len(bytes.Trim(bytes.TrimPrefix(content, secret), "\r\n")) > 0:
			t.Fatalf("%q is read as %q", content, secret)
		}
	})
}
