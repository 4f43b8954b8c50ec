// SPDX-License-Identifier: Apache-2.0

package member

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxPeerTextBytes bounds what is shown to people of a text that a peer chose: a name,
// an address, a reason.
const MaxPeerTextBytes = 128

// PeerText is what is shown to people of a text that a peer, or a stranger, chose: one
// line of at most MaxPeerTextBytes, printable. Every line of a log and every error that
// holds such a text has it from here, or from QuotePeerText.
func PeerText(s string) string { return OneLine(s, MaxPeerTextBytes) }

// QuotePeerText is PeerText for the middle of a sentence: in quotes unless it is one
// plain word, so that no peer goes on with the sentence in words of its own.
func QuotePeerText(s string) string {
	text := PeerText(strings.ReplaceAll(s, "\n", `\n`))
	if text != "" && !strings.ContainsAny(text, ` "\(),;`) {
		return text
	}
	return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"`
}

// cutMark stands where something was left out.
const cutMark = "..."

// OneLine makes a text printable that may hold anything: one line of at most limit
// bytes. Line ends become semicolons, what cannot be seen is written as Go does,
// and quotes stay as they are, so that no text is escaped twice.
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

// cutTo cuts printable text between two characters, and where there is a word's
// end near, there.
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
