// SPDX-License-Identifier: Apache-2.0

package sim

import "github.com/athena-go/athena/member"

// write is what a leader sends to the register: the token of its authority,
// who it is, and a number that grows.
type write struct {
	token  uint64 // 0 for none
	writer member.Identity
	seq    uint64
}

// register is a store outside the cluster that leaders write to, as
// applications do: it compares tokens, so that a leader whose time is over
// cannot harm, however late its write comes. It takes no part in the protocol.
type register struct {
	last     write
	seq      uint64
	accepted int
	fenced   int
}

// acceptWrite takes a write, or refuses it because a later one was taken.
func (r *register) acceptWrite(w write) bool {
	if w.token < r.last.token || w.token == r.last.token && w.seq <= r.last.seq {
		r.fenced++
		return false
	}
	r.last = w
	r.accepted++
	return true
}

// writeOf is what a process with authority would write now.
func (c *Cluster) writeOf(p *process) write {
	a := &c.check.auth[p.index]
	if a.version == 0 || a.until <= c.now {
		return write{}
	}
	c.register.seq++
	return write{a.version, a.holder, c.register.seq}
}

// writeRegister lets a process with authority write after each of its steps. The
// register must take it at once, and only one may write with its token.
func (c *Cluster) writeRegister(p *process) {
	if c.check.auth[p.index].version == 0 {
		return
	}
	if w := c.writeOf(p); w.token != 0 {
		c.putWrite(p, w, false)
	}
}

// wokeUp lets a process finish the write that it was about to make when it was
// frozen: it does not look at its lease again, so the register may refuse.
func (c *Cluster) wokeUp(p *process) {
	w := p.hand
	p.hand = write{}
	if w.token != 0 {
		c.putWrite(p, w, true)
	}
}

func (c *Cluster) putWrite(p *process, w write, late bool) {
	last := c.register.last
	if w.token == last.token && w.writer != last.writer {
		c.check.noteBroken("register", "%v and %v write with the token %d", w.writer, last.writer,
			w.token)
	}
	if c.register.acceptWrite(w) {
		return
	}
	c.noteReached(ruleFenced)
	if !late && !c.check.staleLease(p.index, w.token) {
		c.check.noteBroken("register", "%v writes with authority and the token %d after %v wrote with %d",
			w.writer, w.token, last.writer, last.token)
	}
}
