// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// misfit holds the settings in which a run differs from the others.
type misfit struct {
	size     int
	lease    time.Duration    // LeaseTimeout
	seeds    []member.Address // sorted
	protocol [2]uint16        // lowest and highest version
}

func (m misfit) isZero() bool {
	return m.size == 0 && m.lease == 0 && m.seeds == nil && m.protocol[1] == 0
}

// protocolVersion is the protocol version of every process without a misfit.
const protocolVersion = 1

// nextConfig returns the configuration of the next run of a process.
func (p *process) nextConfig() statemachine.Config {
	cfg := p.cfg
	if p.misfit.size > 0 {
		cfg.Size = p.misfit.size
	}
	if t := cfg.Timings; p.misfit.lease > 0 {
		if t.LeaseTimeout = p.misfit.lease; t.Validate() == nil {
			cfg.Timings = t
		}
	}
	if p.misfit.seeds != nil {
		cfg.Seeds = p.misfit.seeds
	}
	return cfg
}

// longestTimings returns the longer of each timing that a process accepts.
func (p *process) longestTimings() message.Timings {
	return p.cfg.Timings.Longer(p.cfg.OtherTimings)
}

// shortestInterval returns the interval at which a process sends heartbeats.
func (p *process) shortestInterval() time.Duration {
	return p.cfg.Timings.Shorter(p.cfg.OtherTimings).HeartbeatInterval
}

// makeGreet returns the message that a run sends first on every connection.
func (p *process) makeGreet(cfg statemachine.Config) message.Greet {
	g := message.Greet{
		Name:        cfg.Name,
		Size:        cfg.Size,
		SeedDigest:  statemachine.SeedDigest(cfg.Seeds),
		Timings:     cfg.Timings,
		MinProtocol: protocolVersion,
		MaxProtocol: protocolVersion,

		OtherTimings: cfg.OtherTimings,
	}
	if v := p.misfit.protocol; v[1] > 0 {
		g.MinProtocol, g.MaxProtocol = v[0], v[1]
	}
	return g
}

// The results of the greetings between two processes. They are cached until one of the processes
// restarts.
const (
	unknown uint8 = iota
	welcome
	refused
)

// forgetGreets discards the cached results for a process.
func (c *Cluster) forgetGreets(i int) {
	n := len(c.procs)
	for o := range n {
		c.greets[i*n+o], c.greets[o*n+i] = unknown, unknown
	}
}

// keepsConnection reports whether two processes stay connected. It applies the transport's rule to
// the greetings of their current runs.
func (c *Cluster) keepsConnection(from, to int) bool {
	verdict := &c.greets[from*len(c.procs)+to]
	if *verdict == unknown {
		*verdict = c.resolveGreets(c.procs[from], c.procs[to])
	}
	return *verdict == welcome
}

func (c *Cluster) resolveGreets(a, b *process) uint8 {
	if a.greet.Size == 0 || b.greet.Size == 0 || a.home == b.home {
		return welcome // one process is down, or they are twins, which never dial each other
	}
	ours := message.Message{From: a.identity(), To: b.cfg.Address, Body: a.greet}
	passive := b.greet
	passive.Active = !a.greet.Active
	theirs := message.Message{From: b.identity(), To: a.cfg.Address, Body: passive}
	if mesh.CheckGreet(ours, theirs) != nil {
		c.noteReached(ruleGreetRefused)
		return refused
	}
	if mesh.GreetWarning(a.greet, b.greet) != nil {
		c.noteReached(ruleSeedsDiffer)
	}
	return welcome
}
