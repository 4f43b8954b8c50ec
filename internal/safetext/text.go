// SPDX-License-Identifier: Apache-2.0

// Package safetext makes texts printable that a peer or a stranger chose, so that they cannot
// forge a line of a log or move the cursor of a terminal.
package safetext

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxPeerTextBytes bounds how much is shown of a text that a peer chose: a name, an address,
// a reason.
const MaxPeerTextBytes = 128

// PeerText returns one printable line of at most MaxPeerTextBytes of a text that a peer or a
// stranger chose. Every line of a log and every error that holds such a text uses it, or
// QuotePeerText.
func PeerText(s string) string { return OneLine(s, MaxPeerTextBytes) }

// QuotePeerText is PeerText for the middle of a sentence: it adds quotes unless the text is
// one plain word, so that a peer cannot continue the sentence with words of its own.
func QuotePeerText(s string) string {
	text := PeerText(strings.ReplaceAll(s, "\n", `\n`))
	if text != "" && !strings.ContainsAny(text, ` "\(),;`) {
		return text
	}
	return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"`
}

// cutMark replaces what was cut off.
const cutMark = "..."

// OneLine returns any text as one printable line of at most limit bytes. Line ends become
// semicolons, unprintable characters are escaped as in Go, and quotes stay as they are, so
// that a text is not escaped twice.
func OneLine(s string, limit int) string {
	var b strings.Builder
	for i, r := range s {
		text := string(r)
		switch {
		case r == '\n' && i == len(s)-1:
			continue
		case r == '\n':
			text = "; "
		case !strconv.IsPrint(r):
			quoted := strconv.QuoteRune(r)
			text = quoted[1 : len(quoted)-1]
		}
		if b.Len()+len(text) > limit {
			return cutTo(b.String(), limit-len(cutMark)) + cutMark
		}
		b.WriteString(text)
	}
	return b.String()
}

// cutTo cuts printable text between two characters, at the end of a word if there is one
// nearby.
func cutTo(s string, length int) string {
	length = max(0, min(length, len(s)))
	for length < len(s) && !utf8.RuneStart(s[length]) {
		length--
	}
	if at := strings.LastIndexByte(s[:length], ' '); at > length*3/4 {
		length = at
	}
	return s[:length]
}
