// SPDX-License-Identifier: Apache-2.0

//go:build unix

package swarm

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/test/crashdisk"
)

// newDisk returns an empty disk of a node, which may be slow, full or frozen.
func (w *world) newDisk(node int) *crashdisk.Disk {
	d := crashdisk.New(rand.New(rand.NewPCG(w.plan.Seed, uint64(node))))
	d.Before = func(op crashdisk.Op) error {
		w.mu.Lock()
		m, takes := w.machine[node], w.plan.Save
		if m.slow > 0 {
			takes = m.slow
		}
		full, ice := m.full == op, m.frozen
		w.mu.Unlock()
		if ice != nil && op != crashdisk.Open {
			<-ice.thawed
		}
		if op == crashdisk.Sync {
			passTime(takes)
		}
		if full {
			return syscall.ENOSPC
		}
		return nil
	}
	return d
}

// freeze is a time in which a disk does not answer.
type freeze struct {
	thawed chan struct{}
	began  time.Time
	during *proc // the process that ran when it began; may be nil
}

// noticed is the time after which a node must have noticed that its disk does not answer: it probes
// an idle disk every 5 s.
var noticed = 5*time.Second + cluster.DefaultConfig().HeartbeatTimeout

func (w *world) freezeDisk(node int) {
	w.updateMachine(node, func(m *machine) {
		if m.frozen == nil {
			m.frozen = &freeze{make(chan struct{}), time.Now(), m.now}
			m.disturbs++
		}
	})
}

// thawDisk lets the disk answer again. If it was frozen for long, the node must have noticed.
func (w *world) thawDisk(node int) {
	var ice *freeze
	watches := false
	w.updateMachine(node, func(m *machine) {
		if ice = m.frozen; ice == nil {
			return
		}
		m.frozen, m.disturbs, m.calm = nil, m.disturbs-1, time.Now()
		p := m.now
		watches = p != nil && p == ice.during && p.n != nil && p.n.Err() == nil && !m.paused
	})
	if ice == nil {
		return
	}
	if since := time.Since(ice.began); watches && since > noticed {
		if s := ice.during.n.Status(); s.NotSaving == "" || s.SavePending < since-noticed {
			w.failRun("disk", "node %d has not noticed for %v that its disk does not answer: %q, %v",
				node, since, s.NotSaving, s.SavePending)
		}
	}
	close(ice.thawed)
}

// copyDisk copies the disk of a node.
func (w *world) copyDisk(node int) {
	w.updateMachine(node, func(m *machine) {
		m.copied, m.copiedBy = w.newDisk(node), m.now
		m.copied.CopyFrom(m.disk)
	})
}

// restoreDisk kills a node and starts it with the copy of its disk, if there is one.
func (w *world) restoreDisk(node int) {
	copied := false
	w.updateMachine(node, func(m *machine) {
		copied = m.copied != nil
		if p := m.now; copied && p != nil && p != m.copiedBy && p.n != nil {
			v := p.n.View()
			if e, _ := v.Member(v.Self.Address); v.Quorate && e.Identity == v.Self {
				m.outdated = m.store // the others know the run of p
			}
		}
	})
	if copied {
		w.killNode(node, restore)
		w.reviveNode(node)
	}
}

// checkCopies checks that no member has the store of a copy that has forgotten a run.
func (w *world) checkCopies() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for node, m := range w.machine {
		if !m.outdated.IsZero() && m.store == m.outdated {
			w.failLocked("copy", "node %d keeps store %v, whose copy has forgotten a run", node, m.store)
		}
	}
}

// checkedStore checks that a process saves a state before it shows it.
type checkedStore struct {
	store.Store
	p     *proc
	node  atomic.Pointer[cluster.Node] // nil until the node listens; it saves before that, too
	saved member.State                 // the state held by the last content that was saved
}

// Load implements store.Store.
func (s *checkedStore) Load() (store.Content, bool, error) {
	c, known, err := s.Store.Load()
	s.saved = c.Held
	return c, known, err
}

// Save implements store.Store.
func (s *checkedStore) Save(c store.Content) error {
	if n := s.node.Load(); n != nil && s.saved.Number.Less(c.Held.Number) {
		if v := n.View(); v.Version == c.Held.Version && v.Revision == c.Held.Revision && v.Quorate {
			s.p.failRun("unsaved", "run %d of node %d shows %v before it is saved",
				s.p.run, s.p.node, c.Held.Number)
		}
	}
	s.p.noteStore(c.StoreID, s.p.node)
	s.p.checkSeats(c.Held)
	err := s.Store.Save(c)
	s.saved = c.Held
	s.p.updateMachine(s.p.node, func(m *machine) {
		if s.p == m.now {
			m.store = c.StoreID
		}
	})
	return err
}

// Close implements store.Store. A killed process closes nothing.
func (s *checkedStore) Close() error {
	if err := s.Store.Close(); !errors.Is(err, crashdisk.ErrDead) {
		return err
	}
	return nil
}
