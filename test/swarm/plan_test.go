// SPDX-License-Identifier: Apache-2.0

//go:build unix

package swarm

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/test/crashdisk"
)

// plan describes a run. It can be stored as JSON.
type plan struct {
	Seed  uint64        // for what the plan does not contain, such as the choices of applications
	Size  int           // number of nodes
	TLS   bool          // TLS on TCP instead of QUIC
	Small bool          `json:",omitempty"` // payloads are small, so the run costs less
	Delay time.Duration // of each packet
	// Jitter bounds a further delay of each packet until all faults end: packets overtake others.
	Jitter time.Duration `json:",omitempty"`
	Save   time.Duration // duration of each sync of a file
	// Drift is how much faster each clock runs than time passes. Without it, nodes are paused.
	Drift []float64 `json:",omitempty"`
	Lasts time.Duration
	// First lists the members whose addresses are claimed before the members start. These then start
	// one after the other, with the pauses of Starts.
	First  []int           `json:",omitempty"`
	Starts []time.Duration `json:",omitempty"`
	Faults []fault         // in the order of At
	Apps   []app
	Graph  *graph `json:",omitempty"` // instead of faults and applications
}

// fault disturbs a node or a path for some time.
type fault struct {
	Kind      string
	At, Lasts time.Duration
	Node      int
	Leads     bool            `json:",omitempty"` // it hits the leader, if there is one, not Node
	Other     int             `json:",omitempty"` // of cut and path; of claim, the claimant from 0
	Group     []int           `json:",omitempty"` // of partition
	Path      athenatest.Path `json:",omitzero"`  // of path
	Save      time.Duration   `json:",omitempty"` // of slowDisk
	Fails     crashdisk.Op    `json:",omitempty"` // of fullDisk
	Stays     bool            `json:",omitempty"` // of claim: until all members have their places
}

// The kinds of faults.
const (
	partition = "partition" // Group cannot reach the others
	cut       = "cut"       // no packet from Node reaches Other
	path      = "path"      // packets from Node to Other are disturbed
	pause     = "pause"     // SIGSTOP and SIGCONT
	crash     = "crash"     // SIGKILL, and a restart with the same store
	power     = "power"     // a power cut: what was not synced may be lost
	wipe      = "wipe"      // SIGKILL, and a restart without the store
	restore   = "restore"   // a copy of the store, and later SIGKILL and a restart with the copy
	leave     = "leave"     // Node.Leave, and a restart
	closeNode = "close"     // Node.Close, and a restart
	fullDisk  = "full disk" // operations of the disk fail
	slowDisk  = "slow disk" // syncs take longer
	frozen    = "frozen"    // operations of the disk neither succeed nor fail
	claim     = "claim"     // a process that listens elsewhere advertises the address of Node
)

// app is an application on one node. It runs in every process of that node.
type app struct {
	Kind string
	Node int
	Seed uint64
}

// maxDrift bounds the drift of clocks. Their rates differ by less than 10/9.
const maxDrift = 0.045

// graphEvery is the share of seeds whose plan has a graph of calls: one in 8.
const graphEvery = 8

// restoreEvery is the share of the other plans in which a member returns with a copy of its store:
// one in 24.
const restoreEvery = 24

// drawPlan returns the plan of a seed.
func drawPlan(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 1))
	if *graphs || seed%graphEvery == 0 {
		return plan{Seed: seed, Size: 1 + r.IntN(5), Graph: drawGraph(r)}
	}
	p := plan{
		Seed:   seed,
		Size:   pickOne(r, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 5, 2, 2, 1),
		TLS:    r.IntN(3) == 0,
		Small:  r.IntN(24) > 0,
		Delay:  pickOne(r, 200*time.Microsecond, time.Millisecond, 5*time.Millisecond),
		Jitter: pickOne(r, 0, 0, 0, 5*time.Millisecond, 30*time.Millisecond),
		Save:   pickOne(r, 0, 0, time.Millisecond, 10*time.Millisecond),
		Lasts:  drawTime(r, 2*time.Second, pickOne[time.Duration](r, 4, 4, 5, 6, 8, 16)*time.Second),
	}
	if r.IntN(4) == 0 {
		for range p.Size {
			p.Drift = append(p.Drift, (2*r.Float64()-1)*maxDrift)
		}
	}
	wipes := (p.Size - 1) / 2 // more would end the cluster
	for range r.IntN(9) {
		f := drawFault(r, p)
		if f.Kind == wipe {
			if wipes--; wipes < 0 {
				f.Kind = crash
			}
		}
		p.Faults = append(p.Faults, f)
	}
	if p.Size > 2 && r.IntN(restoreEvery) == 0 {
		// No more is promised: a node must remember what the copy has forgotten, and hear it first.
		f := fault{
			Kind: restore, At: drawTime(r, time.Second, p.Lasts/2),
			Lasts: drawTime(r, p.Lasts/4, p.Lasts/2), Node: r.IntN(p.Size),
		}
		// The copy forgets this restart, and what the node learned since.
		again := fault{
			Kind: crash, At: f.At + drawTime(r, 0, f.Lasts/2), Lasts: f.Lasts / 4, Node: f.Node,
		}
		p.Faults, p.Jitter = []fault{f, again}, 0
	}
	for len(p.Apps) < 3 {
		for node := range p.Size {
			for _, a := range appKinds {
				if r.IntN(2) == 0 {
					p.Apps = append(p.Apps, app{a.kind, node, r.Uint64()})
				}
			}
		}
	}
	if !p.hasCopy() {
		p.drawClaims(r, wipes)
	}
	slices.SortStableFunc(p.Faults, func(a, b fault) int { return cmp.Compare(a.At, b.At) })
	return p
}

// hasCopy reports whether a member returns with a copy of its store.
func (p plan) hasCopy() bool { return len(p.Faults) > 0 && p.Faults[0].Kind == restore }

// payloadSize returns the size of a payload, which is smaller if the plan has small payloads.
func (p plan) payloadSize(bytes int) int {
	if p.Small {
		return bytes / 32
	}
	return bytes
}

func drawFault(r *rand.Rand, p plan) fault {
	f := fault{
		Kind: pickOne(r, partition, partition, cut, path, path, pause, crash, power, wipe, leave,
			closeNode, fullDisk, slowDisk, frozen),
		At:    drawTime(r, 0, p.Lasts),
		Lasts: pickOne(r, drawTime(r, 0, time.Second), drawTime(r, 0, 5*time.Second)),
		Node:  r.IntN(p.Size),
		Leads: r.IntN(2) == 0,
		Other: r.IntN(p.Size),
	}
	switch f.Kind {
	case partition:
		for i := range p.Size {
			if r.IntN(2) == 0 {
				f.Group = append(f.Group, i)
			}
		}
	case path:
		f.Path = athenatest.Path{
			Delay:  drawTime(r, 0, 200*time.Millisecond),
			Jitter: drawTime(r, 0, 50*time.Millisecond),
			Loss:   pickOne(r, 0, 0.05, 0.3),
			Twice:  pickOne(r, 0, 0.1),
		}
	case fullDisk:
		f.Fails = pickOne(r, crashdisk.Write, crashdisk.Sync, crashdisk.Create)
	case slowDisk:
		f.Save = pickOne(r, 200*time.Millisecond, time.Second, 3*time.Second)
	case frozen:
		f.Lasts = pickOne(r, f.Lasts, 2*f.Lasts)
	case pause:
		if p.Drift != nil {
			f.Kind = crash
		}
	}
	return f
}

func pickOne[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func drawTime(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)+1))
}
