// SPDX-License-Identifier: Apache-2.0

package athenatest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/leader"
)

// leases checks all nodes whenever one of them publishes a term, and fails the test if two
// have authority. This finds every overlap, because a lease begins with a term and never becomes
// valid again after it has ended.
type leases struct {
	t testing.TB

	mu    sync.Mutex
	nodes []*holder
	found bool // whether a failure was reported
}

// holder is a node with its newest term.
type holder struct {
	process *process
	node    *cluster.Node
	term    leader.Term
}

// followNode checks a node until it ends.
func (l *leases) followNode(p *process, n *cluster.Node) {
	own := &holder{process: p, node: n}
	l.mu.Lock()
	l.nodes = append(l.nodes, own)
	l.mu.Unlock()
	for term := range n.Terms(context.Background()) {
		l.mu.Lock()
		own.term = term
		l.checkNow()
		l.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes = slices.DeleteFunc(l.nodes, func(h *holder) bool { return h == own })
}

// forgetProcess stops checking a process.
func (l *leases) forgetProcess(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes = slices.DeleteFunc(l.nodes, func(h *holder) bool { return h.process == p })
}

// haltProcess pauses or resumes a process while no check runs, because checking a paused
// process would block.
func (l *leases) haltProcess(p *process, still bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if still {
		p.clock.stopClock()
		return
	}
	p.clock.goOn()
	l.checkNow()
}

// checkNow checks all nodes. l.mu must be held.
func (l *leases) checkNow() {
	var held []string
	for _, h := range l.nodes {
		if !h.process.clock.isShut() && h.node.Err() == nil && h.term.Valid() {
			held = append(held, fmt.Sprintf("\nnode %d leads with token %v; its view: %v", h.process.host,
				h.term.Token(), cluster.Snapshot{View: h.node.View()}))
		}
	}
	if len(held) < 2 || l.found {
		return
	}
	l.found = true
	l.t.Errorf("athenatest: split brain: %d nodes lead with authority at the same time:%s",
		len(held), strings.Join(held, ""))
}
