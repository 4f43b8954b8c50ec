// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// This file contains the fault of a crash that another process announces, as athena guard does:
// early or late, to some of the processes, several times, or while the next run begins.

// streamObituaries determines whether a run has such faults, and draws them.
const streamObituaries = -15

// drawObituary draws a crash. Args[0] is the time until another process takes the lock of the
// store. Two numbers follow for each message: its recipient, and its delay.
func (x *chaos) drawObituary(f *Fault) {
	t := x.plan.Setup.Timings
	f.Who, f.Lasts = x.drawVictim(), x.drawDowntime()
	f.Args = []int64{int64(x.drawUpTo(t.HeartbeatInterval / 2))}
	longest := t.HeartbeatInterval / 4
	if x.rand.IntN(3) == 0 {
		longest = 2 * t.TTLTimeout
	}
	for i := range x.c.procs {
		for range 1 + x.rand.IntN(2) - x.rand.IntN(4)/3 {
			f.Args = append(f.Args, int64(i), int64(x.drawUpTo(longest)))
		}
	}
}

// announceEnd crashes a process and announces it. It does nothing if the next run has the lock.
func (x *chaos) announceEnd(f Fault) bool {
	if len(f.Args) == 0 || !x.crashOne(f.Who, f.Lasts) {
		return false
	}
	x.callLater(time.Duration(f.Args[0]), func() {
		run, cluster, ok := x.c.endRuns(f.Who)
		if !ok {
			return
		}
		x.countFault(Obituaries)
		for i := 1; i+1 < len(f.Args); i += 2 {
			if to := int(f.Args[i]); to >= 0 && to < len(x.c.procs) && to != f.Who {
				x.callLater(time.Duration(f.Args[i+1]), func() { x.c.tellEnd(f.Who, run, to, cluster) })
			}
		}
	})
	return false
}

// endRuns saves the number of the run that announces the end of the runs of a process.
func (c *Cluster) endRuns(i int) (run member.Identity, cluster member.ClusterID, ok bool) {
	p := c.procs[i]
	if p.isStarted() || p.cfg.Volatile || p.shared || p.store.Held.IsZero() {
		return run, cluster, false
	}
	p.store.Incarnation = max(p.store.Incarnation+1, p.nextIncarnation)
	p.nextIncarnation = p.store.Incarnation + 1
	return p.identity(), p.store.Held.Cluster, true
}

// tellEnd delivers a message of that run, past the delays and losses of links. To some processes
// others relay it.
func (c *Cluster) tellEnd(from int, run member.Identity, to int, cluster member.ClusterID) {
	p := c.procs[to]
	var body message.Body = message.SeedKeepAlive{}
	if (from+to)%2 == 1 {
		body = message.RunEnded{Run: run}
	}
	c.deliverItem(item{from: from, to: to, conn: c.net.linkOf(from, to).conn, msg: message.Message{
		From: run, To: p.cfg.Address, Cluster: cluster, Body: body,
	}})
}
