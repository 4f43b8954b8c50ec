// SPDX-License-Identifier: Apache-2.0

//go:build unix

package swarm

import (
	"cmp"
	"slices"
	"time"

	"github.com/athena-go/athena/athenatest"
)

// moment is a change of the world.
type moment struct {
	at     time.Duration
	change func()
}

// playFaults lets the applications run while the faults of the plan occur.
func (w *world) playFaults() {
	var all []moment
	for _, f := range w.plan.Faults {
		all = append(all, moment{f.At, func() { w.aimFault(&f); w.beginFault(f) }},
			moment{min(f.At+f.Lasts, w.plan.Lasts), func() { w.endFault(f) }})
	}
	all = append(all, moment{w.plan.Lasts, func() {}})
	slices.SortStableFunc(all, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	w.resetPaths()
	began := time.Now()
	for _, m := range all {
		w.Advance(m.at - time.Since(began))
		m.change()
	}
}

// updateMachine changes the state of a node's machine.
func (w *world) updateMachine(node int, change func(m *machine)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w.machine[node])
}

// aimFault lets a fault hit the leader if the plan wants that.
func (w *world) aimFault(f *fault) {
	leader, ok := w.Leading()
	if !f.Leads || !ok || leader >= w.plan.Size {
		return
	}
	f.Node = leader
	if f.Kind == partition {
		f.Group = []int{leader}
	}
}

// beginFault begins a fault.
func (w *world) beginFault(f fault) {
	switch f.Kind {
	case partition:
		w.Partition(f.Group)
	case cut:
		if f.Node != f.Other {
			w.Cut(f.Node, f.Other)
		}
	case path:
		if f.Node != f.Other {
			w.SetPath(f.Node, f.Other, f.Path)
		}
	case pause:
		w.pauseNode(f.Node)
	case crash, power, wipe:
		w.killNode(f.Node, f.Kind)
	case leave, closeNode:
		w.mu.Lock()
		if p := w.machine[f.Node].now; p != nil && len(p.end) == 0 {
			p.end <- f.Kind
		}
		w.mu.Unlock()
	case claim:
		w.startClaim(f.Other, f.Node)
	case restore:
		if _, led := w.Leading(); led { // a copy of a founder may forget its vote
			w.copyDisk(f.Node)
		}
	case fullDisk:
		w.updateMachine(f.Node, func(m *machine) { m.full = f.Fails })
	case slowDisk:
		w.updateMachine(f.Node, func(m *machine) {
			if m.slow == 0 {
				m.disturbs++
			}
			m.slow = f.Save
		})
	case frozen:
		w.freezeDisk(f.Node)
	}
}

// endFault ends a fault. A later fault of the same kind may end with it.
func (w *world) endFault(f fault) {
	switch f.Kind {
	case partition:
		w.Partition()
	case cut:
		if f.Node != f.Other {
			w.Heal()
			w.resetPaths()
		}
	case path:
		if f.Node != f.Other {
			w.SetPath(f.Node, f.Other, athenatest.Path{Jitter: w.plan.Jitter})
		}
	case pause:
		w.resumeNode(f.Node)
	case crash, power, wipe:
		w.reviveNode(f.Node)
	case restore:
		w.restoreDisk(f.Node)
	case claim:
		if !f.Stays {
			w.stopClaim(f.Other)
		}
	case fullDisk:
		w.updateMachine(f.Node, func(m *machine) { m.full = 0 })
	case slowDisk:
		w.endSlow(f.Node)
	case frozen:
		w.thawDisk(f.Node)
	}
}

// resetPaths gives all paths the jitter of the plan and no other fault.
func (w *world) resetPaths() {
	for from := range w.plan.Size {
		for to := range w.plan.Size {
			if from != to {
				w.SetPath(from, to, athenatest.Path{Jitter: w.plan.Jitter})
			}
		}
	}
}

func (w *world) pauseNode(node int) {
	w.mu.Lock()
	m := w.machine[node]
	up := m.now != nil && m.now.n != nil && m.now.n.Err() == nil && !m.paused
	if up {
		m.paused, m.disturbs = true, m.disturbs+1
	}
	w.mu.Unlock()
	if up {
		w.Pause(node)
	}
}

func (w *world) resumeNode(node int) {
	w.mu.Lock()
	m := w.machine[node]
	paused := m.paused
	if paused {
		m.paused, m.disturbs = false, m.disturbs-1
		m.calm, m.resumed = time.Now(), time.Now()
	}
	w.mu.Unlock()
	if paused {
		w.Resume(node)
	}
}

func (w *world) endSlow(node int) {
	w.updateMachine(node, func(m *machine) {
		if m.slow > 0 {
			// A save that has begun is still slow.
			m.disturbs, m.calm, m.slow = m.disturbs-1, time.Now().Add(m.slow), 0
		}
	})
}

// killNode crashes a node, its machine, or its machine with the disk.
func (w *world) killNode(node int, kind string) {
	if !slices.Contains(w.Running(), node) {
		return
	}
	w.updateMachine(node, func(m *machine) {
		if m.now != nil {
			m.now.dead = true
			m.now = nil
		}
		if m.paused {
			m.paused, m.disturbs = false, m.disturbs-1
		}
	})
	w.Crash(node)
	w.updateMachine(node, func(m *machine) {
		switch kind {
		case crash:
			m.disk.Kill()
		case power:
			m.disk.Crash()
		case wipe:
			m.disk.Kill()
			m.disk, m.wiped = w.newDisk(node), true
		case restore:
			m.disk.Kill()
			m.disk, m.wiped = m.copied, true
		}
	})
}

func (w *world) reviveNode(node int) {
	if !slices.Contains(w.Running(), node) {
		w.Cluster.Start(node)
	}
}

// healWorld ends all faults and waits until the nodes form one cluster.
func (w *world) healWorld() {
	w.Heal()
	for node := range w.plan.Size {
		w.resumeNode(node)
		w.endSlow(node)
		w.thawDisk(node)
		w.updateMachine(node, func(m *machine) { m.full = 0 })
		w.reviveNode(node)
	}
	w.endClaims()
	w.WaitSettled()
	w.checkCopies()
}
