// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestReadSecretRemovesLineEnds checks that ReadSecret removes all trailing line ends and nothing
// else, and refuses invalid files.
func TestReadSecretRemovesLineEnds(t *testing.T) {
	long := string(NewSecret())
	key := make([]byte, maxSecretBytes/4*3)
	rand.Read(key) // never fails
	longest := base64.StdEncoding.EncodeToString(key)
	for _, c := range []struct {
		name, text string
		mode       os.FileMode
		want       string // "" if an error is expected
		fault      string
	}{
		{"as it is", long, 0o600, long, ""},
		{"a line", long + "\n", 0o400, long, ""},
		{"of Windows", long + "\r\n", 0o600, long, ""},
		{"random bytes", "\n " + long + "\x00\r\n\n\r", 0o600, "\n " + long + "\x00", ""},
		{"with spaces", long + " \t", 0o600, "", "is text but not base64"},
		{"the longest", longest, 0o600, longest, ""},
		{"short without its line ends", long[4:] + "\n\n", 0o600, "",
			"has at most 29 random bytes, but a secret needs 32; remove it "},
		{"a password", "passwordpassword\n", 0o600, "", "athena secret new "},
		{"empty", "\n", 0o600, "", "has at most 0 random bytes"},
		{"too long", longest + "s", 0o600, "", "the limit is 4096"},
		{"open to others", long, 0o640, "", "chmod 600"},
	} {
		if runtime.GOOS == "windows" && c.mode&0o077 != 0 {
			continue // has no modes
		}
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		got, err := ReadSecret(path)
		if string(got) != c.want || (err == nil) != (c.fault == "") {
			t.Errorf("%s: got %q, %v; want %q, an error: %t", c.name, got, err, c.want, c.fault != "")
		}
		if err != nil && !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%s: got error %v, want the path before it", c.name, err)
		}
		if err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: got error %v, want %q in it", c.name, err, c.fault)
		}
	}
	_, err := ReadSecret(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: got %v, want that it is not a regular file", err)
	}
}

// TestReadSecretUnread checks the advice for a file that is missing, unreadable or not set.
func TestReadSecretUnread(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	_, missing := ReadSecret(path)
	_, unnamed := ReadSecret("")
	for _, c := range []struct {
		err, is error
		want    string
	}{
		{missing, fs.ErrNotExist, "athena secret new " + path + "; in Go: os.WriteFile("},
		{adviseOpen(&fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}),
			fs.ErrPermission, "the user of this process must own it"},
		{unnamed, nil, "no secret file is set"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) ||
			c.is != nil && !errors.Is(c.err, c.is) {
			t.Errorf("got %v, want %v and %q in it", c.err, c.is, c.want)
		}
	}
}
