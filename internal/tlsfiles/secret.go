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

// maxSecretBytes bounds the file of a secret. A larger file is a mistake.
const maxSecretBytes = 4 << 10

// ReadSecret reads the secret of a cluster, as cluster.Config.SecretFile documents.
func ReadSecret(path string) ([]byte, error) {
	if path == "" {
		return nil, errors.New("no secret file is set: every node needs a file with the same " +
			"secret; " + howToMake("secret"))
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

// ReadPrivate reads a file of at most 4 KiB and removes trailing line ends. It fails if
// users other than the owner may read the file. A file that belongs to root may also be
// readable by its group if this process does not run as root: container platforms mount
// secrets that way.
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

// howToMake returns advice for users with and without the athena binary.
func howToMake(path string) string {
	return fmt.Sprintf("make the first one with: athena secret new %s; in Go: "+
		"os.WriteFile(%[1]q, cluster.NewSecret(), 0o600)", path)
}

// readRegular reads a regular file that is no longer than the limit. If private is true, only the
// owner may have permission to read it.
func readRegular(path string, limit int64, private bool) ([]byte, error) {
	// Check first: opening a pipe blocks until it has a writer.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
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
		return nil, fmt.Errorf("%s: mode %04o lets others read the secret; for the group of a node, run "+
			"this as the node's user or use a copy; otherwise, chmod 600 %[1]s", path, info.Mode().Perm())
	case info.Size() > limit:
		return nil, fmt.Errorf("%s: %d bytes; the limit is %d", path, info.Size(), limit)
	}
	return io.ReadAll(io.LimitReader(file, limit))
}

// adviseOpen adds advice to the error if this process lacks permission to open a file.
func adviseOpen(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: the user of this process must own it (mode 0600), or its group if root "+
			"owns it (mode 0640), and have access to its directories", err)
	}
	return err
}
