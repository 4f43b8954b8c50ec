// SPDX-License-Identifier: Apache-2.0

package sim

import "github.com/athena-go/athena/member"

// write is a leader's write to the register: the token of its authority, the leader, and a
// sequence number.
type write struct {
	token  uint64 // 0 for none
	writer member.Identity
	seq    uint64
}

// register simulates the external storage to which applications write. It compares tokens, so a
// late write of a former leader has no effect.
type register struct {
	last     write
	seq      uint64
	accepted int
	fenced   int
}

// acceptWrite accepts a write unless it has accepted a later write.
func (r *register) acceptWrite(w write) bool {
	if w.token < r.last.token || w.token == r.last.token && w.seq <= r.last.seq {
		r.fenced++
		return false
	}
	r.last = w
	r.accepted++
	return true
}

// nextWrite returns the next write of a process.
func (c *Cluster) nextWrite(p *process) write {
	a := &c.check.auth[p.index]
	if a.version == 0 || a.until <= c.now {
		return write{}
	}
	c.register.seq++
	return write{a.version, a.holder, c.register.seq}
}

// writeRegister makes a process with authority write after each step. The register must
// accept the write, and no two processes may write with the same token.
func (c *Cluster) writeRegister(p *process) {
	if c.check.auth[p.index].version == 0 {
		return
	}
	if w := c.nextWrite(p); w.token != 0 {
		c.sendWrite(p, w, false)
	}
}

// finishWrite completes the write that a process was about to make when it was paused. The
// process does not check its lease again, so the register may refuse the write.
func (c *Cluster) finishWrite(p *process) {
	w := p.pendingWrite
	p.pendingWrite = write{}
	if w.token != 0 {
		c.sendWrite(p, w, true)
	}
}

func (c *Cluster) sendWrite(p *process, w write, late bool) {
	last := c.register.last
	if w.token == last.token && w.writer != last.writer {
		c.check.noteBroken("register", "%v and %v both write with token %d", w.writer, last.writer,
			w.token)
	}
	if c.register.acceptWrite(w) {
		return
	}
	c.noteReached(ruleFenced)
	if !late && !c.check.staleLease(p.index, w.token) {
		c.check.noteBroken("register",
			"%v writes with authority and token %d after %v wrote with token %d",
			w.writer, w.token, last.writer, last.token)
	}
}
