// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
)

// Self is how this program is called from any folder, to be pasted into a shell.
func Self() string {
	name := os.Args[0]
	if strings.ContainsRune(name, filepath.Separator) { // otherwise the shell finds it
		if path, err := filepath.Abs(name); err == nil {
			name = path
		}
	}
	return ShellWord(name)
}

// plainWord are the characters besides letters and digits that no shell takes
// for anything else.
const plainWord = "/._-:@%+=,"

// ShellWord quotes a word for a shell where that is needed.
func ShellWord(s string) string {
	special := func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune(plainWord, r)
	}
	if s != "" && !strings.ContainsFunc(s, special) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
