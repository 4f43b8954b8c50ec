// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/tlsfiles"
)

// minTokenBytes is the minimum length of a token. A token may be shorter than a cluster secret,
// since an attacker must send each guess to the node.
const minTokenBytes = 16

// tokenInterval is the minimum time between checks for changes of the token file.
const tokenInterval = time.Second

var errNeedsToken = errors.New(
	"token required: send the header Authorization: Bearer TOKEN, or use --admin-token-file")

// Token is the token that callers of an admin API must send. It is reloaded when its file changes.
type Token struct {
	path string

	mu        sync.Mutex
	text      string // empty while the file is invalid
	checkedAt time.Time
	file      fs.FileInfo // the file when it was last read
}

// ReadToken reads a token from a file of at most 4 KiB. A token has at least 16 printable ASCII
// characters without spaces; surrounding white space is ignored. Only the owner may have access to
// the file. As an exception, the group may read a file owned by root if this process does not run
// as root.
func ReadToken(path string) (*Token, error) {
	t := &Token{path: path, checkedAt: time.Now()}
	if err := t.readFile(); err != nil {
		return nil, err
	}
	return t, nil
}

// readFile reads the file. After an error the token is empty.
func (t *Token) readFile() (err error) {
	t.text = ""
	if t.file, err = os.Stat(t.path); err != nil {
		return err
	}
	all, err := tlsfiles.ReadPrivate(t.path)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(all))
	switch {
	case len(text) < minTokenBytes:
		return fmt.Errorf("%s: token of %d characters, must be at least %d; athena secret new makes one",
			t.path, len(text), minTokenBytes)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("%s: a token must have only printable ASCII characters without spaces; "+
			"athena secret new makes one", t.path)
	}
	t.text = text
	return nil
}

// Current returns the token in the file. If the file has become invalid, the token is empty and all
// requests are refused, since an operator who removes the file expects the old token to stop
// working.
func (t *Token) Current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Sub(t.checkedAt) < tokenInterval {
		return t.text
	}
	t.checkedAt = now
	file, err := os.Stat(t.path)
	if err != nil || t.text == "" || !os.SameFile(file, t.file) || file.Mode() != t.file.Mode() ||
		file.Size() != t.file.Size() || !file.ModTime().Equal(t.file.ModTime()) {
		_ = t.readFile() // on error, callers get unauthorized
	}
	return t.text
}

// checkToken returns an error unless a request carries the token.
func (t *Token) checkToken(r *http.Request) error {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want := t.Current()
	// Comparing hashes does not reveal the length by timing.
	got, right := sha256.Sum256([]byte(text)), sha256.Sum256([]byte(want))
	equal := subtle.ConstantTimeCompare(got[:], right[:]) == 1
	if equal && want != "" && strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	return errNeedsToken
}
