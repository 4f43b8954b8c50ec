// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
)

// Self returns a shell word that runs this program from any directory.
func Self() string {
	name := os.Args[0]
	if strings.ContainsRune(name, filepath.Separator) { // otherwise, the shell finds it in PATH
		if path, err := filepath.Abs(name); err == nil {
			name = path
		}
	}
	return ShellWord(name)
}

// plainWord lists the characters, besides letters and digits, that need no quotes in any shell.
const plainWord = "/._-:@%+=,"

// ShellWord quotes s for a shell if needed.
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
