// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"time"

	"github.com/athena-go/athena/member"
)

// Term is one period in which one member leads with authority, as this node
// sees it. Terms are small values to pass on. The zero Term is never valid.
type Term struct{ t *tenure }

type tenure struct{}

// Leader is the member that leads.
func (t Term) Leader() member.Member { return member.Member{} }

// Token is the fencing token: the version of the term. It grows with every
// leader for the whole life of the cluster, and no two nodes share one.
func (t Term) Token() uint64 { return 0 }

// Valid reports whether this node leads with authority at this moment. It
// reads the clock. It is false on every node but the leader.
func (t Term) Valid() bool { return false }

// Deadline is when authority ends unless it is extended, on the clock of
// time.Now; zero on every node but the leader.
func (t Term) Deadline() time.Time { return time.Time{} }

// Done is closed when the term is over as far as this node knows.
func (t Term) Done() <-chan struct{} { return nil }

// Err is why the term is over, nil while it is not.
func (t Term) Err() error { return nil }
