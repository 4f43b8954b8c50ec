// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"fmt"
)

// Claim says who leads, as one node sees it. The zero Claim means that it
// knows no leader.
type Claim struct {
	Chosen  bool // chosen by M votes; otherwise provisional, without authority
	Version uint64
	Leader  Address
}

// IsZero reports whether the claim names nobody.
func (c Claim) IsZero() bool { return c.Leader.IsZero() }

// compare orders claims (protocol.md section 7): any before none, chosen
// before provisional, then the higher version, then the greater address. The
// greater claim is the better one.
func (c Claim) compare(o Claim) int {
	return cmp.Or(
		compareBool(!c.IsZero(), !o.IsZero()),
		compareBool(c.Chosen, o.Chosen),
		cmp.Compare(c.Version, o.Version),
		c.Leader.Compare(o.Leader),
	)
}

// BetterThan reports whether c wins against o.
func (c Claim) BetterThan(o Claim) bool { return c.compare(o) > 0 }

// String is short and meant for logs and traces.
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

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}
