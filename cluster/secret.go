// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// maxSecretBytes bounds the file of a secret; more is taken for a mistake.
const maxSecretBytes = 4 << 10

// ReadSecret reads Config.Secret from a file as the daemon does, so that a program
// and a daemon with the same file have the same secret. All line ends ('\n', '\r')
// at the end of the file do not belong to the secret, since editors and commands
// add them; that holds for random bytes too. It is an error where others than the
// owner may read the file, or fewer than MinSecretBytes are left.
func ReadSecret(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: is no regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s: mode %04o lets others have the secret; run: chmod 600 %s",
			path, info.Mode().Perm(), path)
	case info.Size() > maxSecretBytes:
		return nil, fmt.Errorf("%s: %d bytes; a secret has at most %d",
			path, info.Size(), maxSecretBytes)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSecretBytes))
	if err != nil {
		return nil, err
	}
	secret := bytes.TrimRight(text, "\r\n")
	if len(secret) < MinSecretBytes {
		return nil, fmt.Errorf("%s: holds %d bytes, and a secret has at least %d; "+
			"make one with: openssl rand -hex 32", path, len(secret), MinSecretBytes)
	}
	return secret, nil
}
