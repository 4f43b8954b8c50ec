// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/tlsfiles"
)

// minTokenBytes is the shortest token. It is shorter than a secret of the cluster, because
// each guess has to be sent to the node.
const minTokenBytes = 16

// tokenInterval is how often the file of a token is looked at, at most.
const tokenInterval = time.Second

// Token is what callers of an admin API must show. It is read from a file again
// when that has changed.
type Token struct {
	path string

	mu     sync.Mutex
	text   string // empty while the file cannot be used
	looked time.Time
	file   fs.FileInfo // that text is of
}

// ReadToken reads a token from a file of at most 4 KiB. A token has at least 16 printable
// characters and no spaces; spaces and line ends around it are left out. It is an error if
// others than the owner may read the file. A file of root may be readable by its group too
// if this process is not root's.
func ReadToken(path string) (*Token, error) {
	t := &Token{path: path, looked: time.Now()}
	if err := t.readFile(); err != nil {
		return nil, err
	}
	return t, nil
}

// readFile reads the file. After an error there is no token.
func (t *Token) readFile() (err error) {
	t.text = ""
	if t.file, err = os.Stat(t.path); err != nil {
		return fmt.Errorf("%w: make one with: athena secret new %s", err, t.path)
	}
	all, err := tlsfiles.ReadPrivate(t.path)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(all))
	switch {
	case len(text) < minTokenBytes:
		return fmt.Errorf("%s: holds %d characters besides spaces, and a token has at least %d; "+
			"remove it and make one with: athena secret new %[1]s", t.path, len(text),
			minTokenBytes)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("%s: a token is of printable ASCII characters without spaces; "+
			"remove it and make one with: athena secret new %[1]s", t.path)
	}
	t.text = text
	return nil
}

// Current returns the token as of now. It is empty if the file can no longer be used:
// an operator who removes the file, or opens it to other users, wants the old token to be
// worth nothing, so no request passes then.
func (t *Token) Current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Sub(t.looked) < tokenInterval {
		return t.text
	}
	t.looked = now
	file, err := os.Stat(t.path)
	if err != nil || t.text == "" || !os.SameFile(file, t.file) || file.Mode() != t.file.Mode() ||
		file.Size() != t.file.Size() || !file.ModTime().Equal(t.file.ModTime()) {
		_ = t.readFile() // the callers are told
	}
	return t.text
}

// requireToken lets only requests pass that show the token, and those of health and of the page,
// which is the same for everybody and asks for the token itself.
func (t *Token) requireToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case t.isShown(r):
			setReplaceable(r, time.Now().Add(answerGrace))
			next.ServeHTTP(w, r)
			return
		case isHealth(r):
			codeAlone(next).ServeHTTP(w, r)
			return
		case isPage(r):
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="athena"`)
		adminapi.WriteError(w, http.StatusUnauthorized, adminapi.CodeUnauthorized,
			"this admin API wants its token: send Authorization: Bearer TOKEN, or name the file that "+
				"holds it with --admin-token-file")
	})
}

func (t *Token) isShown(r *http.Request) bool {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want := t.Current()
	// Of hashes, so that not even the length can be learned by the time it takes.
	got, right := sha256.Sum256([]byte(text)), sha256.Sum256([]byte(want))
	equal := subtle.ConstantTimeCompare(got[:], right[:]) == 1
	return equal && want != "" && strings.EqualFold(scheme, "Bearer")
}
