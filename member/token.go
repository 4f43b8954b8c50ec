// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// revisionsOfVersion is the factor in Token.Int64. It is a power of ten, so that both parts
// can be read in decimal. With 1,000 commits per second a leader reaches it after 31 years.
const revisionsOfVersion = 1_000_000_000_000

// MaxVersion is the greatest version of a leader, about nine million: Token.Int64 has no room for a
// greater one. No node votes for a greater version or takes a state of one. At one election per
// minute a cluster reaches it after 17 years.
const MaxVersion = math.MaxInt64/revisionsOfVersion - 1

// Token is the fencing token of a leader or of the owner of a record: storage that has seen a token
// refuses every smaller token. All tokens of a cluster are totally ordered. The token of a leader
// is {version, 0}. The token of a record is the version and revision that set it. The zero Token is
// less than any other and must not be accepted.
type Token struct {
	Version  uint64
	Revision uint64
}

// Compare orders tokens by version, then by revision.
func (t Token) Compare(o Token) int {
	return cmp.Or(cmp.Compare(t.Version, o.Version), cmp.Compare(t.Revision, o.Revision))
}

// Less reports whether t is older than o.
func (t Token) Less(o Token) bool { return t.Compare(o) < 0 }

// IsZero reports whether t is the zero Token.
func (t Token) IsZero() bool { return t == Token{} }

// Int64 returns the token as VERSION x 10^12 + REVISION, which fits a BIGINT column and keeps the
// order: revision 17 of version 4 is 4000000000017. This is also the text of the token, and
// ATHENA_TOKEN of commands run by athena lock and athena elect. Int64 returns an error if the
// revision is 10^12 or more, or if the version exceeds MaxVersion, which no cluster does.
func (t Token) Int64() (int64, error) {
	if t.Revision >= revisionsOfVersion || t.Version > MaxVersion {
		return 0, fmt.Errorf("member: token %s does not fit into one integer: "+
			"store its version and its revision", t.parts())
	}
	return int64(t.Version)*revisionsOfVersion + int64(t.Revision), nil
}

// TokenOf is the inverse of Token.Int64. It returns the zero Token if n is not positive.
func TokenOf(n int64) Token {
	if n <= 0 {
		return Token{}
	}
	return Token{Version: uint64(n) / revisionsOfVersion, Revision: uint64(n) % revisionsOfVersion}
}

// parts returns "VERSION.REVISION".
func (t Token) parts() string { return fmt.Sprintf("%d.%d", t.Version, t.Revision) }

// String returns the number of Int64 in decimal digits. If there is none, it returns
// "VERSION.REVISION".
func (t Token) String() string {
	n, err := t.Int64()
	if err != nil {
		return t.parts()
	}
	return strconv.FormatInt(n, 10)
}

// MarshalText returns the text of String.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText parses the text of String, or "VERSION.REVISION". Leading zeros and signs are
// errors.
func (t *Token) UnmarshalText(b []byte) error {
	text := string(b)
	version, revision, _ := strings.Cut(text, ".")
	v, verr := strconv.ParseUint(version, 10, 64)
	r, rerr := strconv.ParseUint(revision, 10, 64)
	if read := (Token{v, r}); verr == nil && rerr == nil && read.parts() == text {
		*t = read
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if read := TokenOf(n); err == nil && read.String() == text {
		*t = read
		return nil
	}
	return fmt.Errorf("member: invalid token %.80q: want VERSION x 10^12 + REVISION", b)
}
