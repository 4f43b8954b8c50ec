// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/athena-go/athena/transport/quicnet"
)

// maxSecretBytes bounds the file of a secret; more is taken for a mistake.
const maxSecretBytes = 4 << 10

// ReadSecret reads Config.Secret from a file as the daemon does, so that a program
// and a daemon with the same file have the same secret. All line ends ('\n', '\r')
// at the end of the file do not belong to the secret, since editors and commands
// add them; that holds for random bytes too. A secret is MinSecretBytes or more random
// bytes, as they are or in base64, as athena secret new and NewSecret make it. Passwords
// are refused: all who reach a node can try them without being noticed. So is a file
// that ReadPrivate refuses.
func ReadSecret(path string) ([]byte, error) {
	if path == "" {
		return nil, errors.New("no file is named that holds the secret: name one, the same secret on " +
			"every node; " + howToMake("secret"))
	}
	secret, err := ReadPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: copy it there from another node, or %s", err, howToMake(path))
	}
	if err != nil {
		return nil, err
	}
	if err := quicnet.CheckSecret(secret); err != nil {
		return nil, fmt.Errorf("%s: %w; remove it and %s", path, err, howToMake(path))
	}
	return secret, nil
}

// ReadPrivate reads a file of at most 4 KiB, without the line ends at its end. It is an
// error if others than the owner may read the file. A file of root may be readable by its
// group too, for a process that is not root's: so secrets are mounted.
func ReadPrivate(path string) ([]byte, error) {
	text, err := readRegular(path, maxSecretBytes, true)
	return bytes.TrimRight(text, "\r\n"), err
}

// NewSecret makes a secret: MinSecretBytes random bytes in base64.
func NewSecret() []byte {
	var key [MinSecretBytes]byte
	rand.Read(key[:]) // never fails
	return base64.StdEncoding.AppendEncode(nil, key[:])
}

// howToMake tells people, and programs that have no athena beside them.
func howToMake(path string) string {
	return fmt.Sprintf("make the first one with: athena secret new %s; in Go: "+
		"os.WriteFile(%[1]q, cluster.NewSecret(), 0o600)", path)
}

// readRegular reads a file of at most limit bytes; nobody but its owner may read one
// that is private.
func readRegular(path string, limit int64, private bool) ([]byte, error) {
	// Before it is opened: opening a pipe waits for somebody who writes to it.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is no regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, unread(err)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case private && !isPrivate(info):
		return nil, fmt.Errorf("%s: mode %04o lets others have the secret; run: chmod 600 %s",
			path, info.Mode().Perm(), path)
	case info.Size() > limit:
		return nil, fmt.Errorf("%s: %d bytes; at most %d are read", path, info.Size(), limit)
	}
	return io.ReadAll(io.LimitReader(file, limit))
}

// unread says what to do about a file that cannot be opened.
func unread(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: let the user that runs this process own it, with mode 0600, and pass "+
			"through its folders", err)
	}
	return err
}
