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

// leases looks at all nodes whenever one of them shows another term, and fails the test
// where two have authority. A lease begins with a term, and once it was seen to have
// ended it stays so: two that are held at any instant are held at one at which it looks.
type leases struct {
	t testing.TB

	mu    sync.Mutex
	nodes []*holder // that can be looked at
	found bool      // one failure says it
}

// holder is a node and the newest term that it showed.
type holder struct {
	process *process
	node    *cluster.Node
	term    leader.Term
}

// followNode looks at a node from now on until it ends.
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

// forgetProcess looks at a process no more.
func (l *leases) forgetProcess(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes = slices.DeleteFunc(l.nodes, func(h *holder) bool { return h.process == p })
}

// haltProcess lets a process stand still, or go on, while nobody looks at it: to look at one
// that stands still is to wait for it.
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

// checkNow looks at this instant. The caller holds mu.
func (l *leases) checkNow() {
	var held []string
	for _, h := range l.nodes {
		if !h.process.clock.isShut() && h.node.Err() == nil && h.term.Valid() {
			held = append(held, fmt.Sprintf("\nnode %d with token %v; it sees %v", h.process.host,
				h.term.Token(), cluster.Snapshot{View: h.node.View()}))
		}
	}
	if len(held) < 2 || l.found {
		return
	}
	l.found = true
	l.t.Errorf("athenatest: split brain: %d nodes lead with authority at one instant:%s",
		len(held), strings.Join(held, ""))
}
