// SPDX-License-Identifier: Apache-2.0

//go:build unix

package swarm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/test/crashdisk"
)

// claims is what the world knows about stores and about claimants: nodes of the same configuration,
// with a store of their own, that advertise the address of a member and listen elsewhere. world.mu
// guards it.
type claims struct {
	stores  map[member.StoreID]int // the node that has or had each store
	victims [athenatest.Spares]int // the member whose address each claimant advertises
	refused [athenatest.Spares]int // how often each has ended because a member answers
	ending  [athenatest.Spares]bool
}

// claimPause is the time between the end of a claimant and its next start, as of a supervisor.
const claimPause = time.Second

// drawClaims adds claimants to one plan of four, in a third of the cases of a member that loses its
// store. In a third of these plans claimants also start before the members. wipes is how many more
// stores may be lost.
func (p *plan) drawClaims(r *rand.Rand, wipes int) {
	if p.Size == 1 || r.IntN(4) > 0 {
		return
	}
	for host := range 1 + r.IntN(athenatest.Spares) {
		f := fault{
			Kind: claim, At: drawTime(r, 0, p.Lasts), Lasts: drawTime(r, time.Second, 8*time.Second),
			Node: r.IntN(p.Size), Other: host, Stays: r.IntN(2) == 0,
		}
		if wipes > 0 && r.IntN(3) == 0 {
			wipes--
			p.Faults = append(p.Faults, fault{
				Kind: wipe, At: f.At + drawTime(r, 0, time.Second), Lasts: drawTime(r, 0, 2*time.Second),
				Node: f.Node,
			})
		} else {
			f.Leads = r.IntN(2) == 0
		}
		p.Faults = append(p.Faults, f)
	}
	if r.IntN(3) == 0 {
		p.First = r.Perm(p.Size)[:1+r.IntN(athenatest.Spares)]
		for range p.Size {
			p.Starts = append(p.Starts, drawTime(r, 0, 3*time.Second))
		}
	}
}

// startMembers starts the members, and before that the claimants that come first. These are stopped
// when the members have formed the cluster.
func (w *world) startMembers() {
	for host, victim := range w.plan.First {
		w.startClaim(host, victim)
	}
	for node, pause := range w.plan.Starts {
		w.Advance(pause)
		w.Cluster.Start(node)
	}
	if len(w.plan.Starts) == 0 {
		w.Start()
	}
	w.endClaims()
	w.WaitSettled()
}

// startClaim starts a claimant at a host beside those of the members.
func (w *world) startClaim(host, victim int) {
	if w.plan.Size == 1 {
		return // a seed that is alone founds a cluster
	}
	w.mu.Lock()
	w.claims.victims[host], w.claims.ending[host] = victim, false
	w.mu.Unlock()
	w.Cluster.Start(w.plan.Size + host)
}

// stopClaim kills a claimant, or lets it leave as a daemon does on SIGTERM.
func (w *world) stopClaim(host int) {
	w.mu.Lock()
	w.claims.ending[host] = true
	w.mu.Unlock()
	switch node := w.plan.Size + host; {
	case w.plan.Size == 1:
	case (int(w.plan.Seed)+host)%2 == 0:
		w.Crash(node)
	default:
		w.Leave(node)
	}
}

// superviseClaim runs a claimant, and starts it again after each end.
func (w *world) superviseClaim(
	ctx context.Context, host int, cfg cluster.Config, opts []cluster.Option,
) {
	disk := crashdisk.New(rand.New(rand.NewPCG(w.plan.Seed, uint64(w.plan.Size+host))))
	for ctx.Err() == nil {
		w.noteEnd(host, w.runClaim(ctx, host, disk, cfg, opts))
		sleepUntil(ctx, claimPause)
	}
}

// noteEnd checks how a claimant has ended.
func (w *world) noteEnd(host int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(err, cluster.ErrAddressInUse) {
		w.claims.refused[host]++
	} else if !w.claims.ending[host] {
		w.failLocked("claim", "the process that claims the address of node %d from elsewhere "+
			"ended with: %v", w.claims.victims[host], err)
	}
}

// runClaim runs a claimant until it ends or ctx is done. It returns how the claimant ended.
func (w *world) runClaim(
	ctx context.Context, host int, disk *crashdisk.Disk, cfg cluster.Config, opts []cluster.Option,
) error {
	file, err := store.OpenFolder(cfg.DataDir, disk.Folder())
	if err != nil {
		return err
	}
	opts = append(opts[:len(opts):len(opts)], cluster.WithListening(func(n *cluster.Node) {
		go func() {
			for range n.Events(context.Background()) {
				w.checkClaim(host, n.View())
			}
		}()
	}))
	own := store.NewContext(ctx, claimStore{file, w, w.plan.Size + host})
	n, err := cluster.Start(own, cfg, opts...)
	if err != nil {
		return err
	}
	select { // it leads provisionally, because it heard no other seed
	case <-n.Done():
	case <-ctx.Done():
		limited, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		_ = n.Leave(limited) // perhaps no node answers
	}
	return errors.Join(n.Err(), n.Close())
}

// checkClaim checks a view of a claimant: it has no place.
func (w *world) checkClaim(host int, v member.View) {
	if v.Quorate || v.Role == member.Leading || v.Role == member.Following {
		w.failRun("claim", "the process that claims the address of node %d from elsewhere is %v in %v",
			w.claims.victims[host], v.Role, cluster.Snapshot{View: v})
	}
}

// claimStore is the store of a claimant.
type claimStore struct {
	store.Store
	w    *world
	node int
}

// Save implements store.Store.
func (s claimStore) Save(c store.Content) error {
	s.w.noteStore(c.StoreID, s.node)
	return s.Store.Save(c)
}

// noteStore records that a node has a store.
func (w *world) noteStore(id member.StoreID, node int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims.stores[id] = node
}

// checkSeats checks a state of a chosen leader that a node holds: each place is that of the node
// that listens at the address, with a store that this node has or had.
func (w *world) checkSeats(s member.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range s.Roster {
		if node, known := w.claims.stores[m.StoreID]; !known || w.Address(node) != m.Address {
			w.failLocked("claim", "state %v has the store of node %d at %v", s.Number, node, m.Address)
		}
	}
}

// endClaims waits until all members have their places although there are still claimants, and each
// of these is refused again. Then it ends them.
func (w *world) endClaims() {
	var hosts []int
	for _, node := range w.Running() {
		if node >= w.plan.Size {
			hosts = append(hosts, node-w.plan.Size)
		}
	}
	if len(hosts) == 0 {
		return
	}
	w.Within(time.Minute, "places of all members despite claimants", w.haveMembersPlaces)
	w.mu.Lock()
	before := w.claims.refused
	w.mu.Unlock()
	for _, host := range hosts {
		w.Within(progress, fmt.Sprint("refusal of claimant ", host), func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.claims.refused[host] > before[host]
		})
	}
	for _, host := range hosts {
		w.stopClaim(host)
	}
}

// haveMembersPlaces reports whether every member shows that all of them are active under a leader
// with authority.
func (w *world) haveMembersPlaces() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.machine {
		if m.now == nil || m.now.n == nil {
			return false
		}
		v := m.now.n.View()
		own, _ := v.Member(v.Self.Address)
		if !v.Quorate || own.Identity != v.Self || v.Members.Count(member.Active) != w.plan.Size {
			return false
		}
	}
	return true
}
