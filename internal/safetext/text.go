// SPDX-License-Identifier: Apache-2.0

// Package safetext makes texts from peers printable, so that they cannot forge log lines or control
// a terminal.
package safetext

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxPeerTextBytes is the maximum length of a peer's text, such as a name, an address or a reason,
// when shown.
const MaxPeerTextBytes = 128

// PeerText returns a peer's text as one printable line of at most MaxPeerTextBytes. Every log line
// and error that contains such a text must use PeerText or QuotePeerText.
func PeerText(s string) string { return OneLine(s, MaxPeerTextBytes) }

// QuotePeerText is like PeerText, but for use within a sentence. It adds quotes unless the text is
// one plain word, so that a peer cannot add words to the sentence.
func QuotePeerText(s string) string {
	text := PeerText(strings.ReplaceAll(s, "\n", `\n`))
	if text != "" && !strings.ContainsAny(text, ` "\(),;`) {
		return text
	}
	return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"`
}

// cutMark is appended to a text that was cut because it was too long.
const cutMark = "..."

// OneLine returns a text as one printable line no longer than the limit in bytes. Line ends become
// semicolons and unprintable characters are escaped as in Go. Quotes are not escaped, so that a
// text is not escaped twice.
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

// cutTo cuts printable text, never within a character and preferably at the end of a word.
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
