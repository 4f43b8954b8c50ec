// SPDX-License-Identifier: Apache-2.0

package tlsfiles

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

// maxSecretBytes bounds the file of a secret. A larger one is a mistake.
const maxSecretBytes = 4 << 10

// ReadSecret reads the secret of a cluster, as cluster.ReadSecret documents.
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
// group too if this process is not root's: container platforms mount secrets like that.
func ReadPrivate(path string) ([]byte, error) {
	text, err := readRegular(path, maxSecretBytes, true)
	return bytes.TrimRight(text, "\r\n"), err
}

// NewSecret makes a secret: quicnet.MinSecretBytes random bytes in base64.
func NewSecret() []byte {
	var key [quicnet.MinSecretBytes]byte
	rand.Read(key[:]) // never fails
	return base64.StdEncoding.AppendEncode(nil, key[:])
}

// howToMake is advice with two commands: a program may have no athena binary beside it.
func howToMake(path string) string {
	return fmt.Sprintf("make the first one with: athena secret new %s; in Go: "+
		"os.WriteFile(%[1]q, cluster.NewSecret(), 0o600)", path)
}

// readRegular reads a file of at most limit bytes. If it is private, only its owner may be
// able to read it.
func readRegular(path string, limit int64, private bool) ([]byte, error) {
	// Look before opening: to open a pipe blocks until it has a writer.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is no regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, adviseOpen(err)
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

// adviseOpen adds what to do about a file that this process may not open.
func adviseOpen(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: let the user that runs this process own it, with mode 0600, and pass "+
			"through its folders", err)
	}
	return err
}
