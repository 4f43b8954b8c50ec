// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"fmt"
)

// Claim names the leader that a node follows. The zero Claim names no leader.
type Claim struct {
	Chosen  bool // chosen by M votes; otherwise provisional, without authority
	Version uint64
	Leader  Address
}

// IsZero reports whether the claim names no leader.
func (c Claim) IsZero() bool { return c.Leader.IsZero() }

// compare orders claims by protocol.md section 7. A claim with a leader is greater than the zero
// Claim, and a claim of a chosen leader is greater than that of a provisional leader. Otherwise the
// higher version wins, and then the greater address.
func (c Claim) compare(o Claim) int {
	return cmp.Or(
		cmp.Compare(flag(!c.IsZero()), flag(!o.IsZero())),
		cmp.Compare(flag(c.Chosen), flag(o.Chosen)),
		cmp.Compare(c.Version, o.Version),
		c.Leader.Compare(o.Leader),
	)
}

// BetterThan reports whether c wins over o: a node that knows both follows the leader of c.
func (c Claim) BetterThan(o Claim) bool { return c.compare(o) > 0 }

// String returns a short form for logs.
func (c Claim) String() string {
	switch {
	case c.IsZero():
		return "no leader"
	case c.Chosen:
		return fmt.Sprintf("%s v%d", c.Leader, c.Version)
	default:
		return fmt.Sprintf("%s v%d provisional", c.Leader, c.Version)
	}
}
