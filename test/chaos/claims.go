// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// This file is about processes that claim the addresses of members, although they listen elsewhere.
// They run on hosts of their own, which no fault of the network affects.

// The kinds of faults with such processes. Those with a 2 are about the second cluster, which has
// no other faults: its leader must keep its token.
const (
	// typo runs nodes that advertise the addresses of members by mistake. They have the secret, the
	// seeds and an empty data directory, and start again a second after each end.
	typo      = "typo"
	typoOther = "typo 2"
	// intruder runs a process that has the secret. It greets from the address of each member in turn,
	// and sends joins, claims and proposals with raised numbers.
	intruder      = "intruder"
	intruderOther = "intruder 2"
)

// claimHosts is how many such processes can run at a time.
const claimHosts = 3

// isClaim reports whether a kind of fault is one of this file.
func isClaim(kind string) bool {
	return slices.Contains([]string{typo, typoOther, intruder, intruderOther}, kind)
}

// hostName returns the name of such a process, which is also that of its evidence.
func hostName(host int) string { return fmt.Sprintf("x%d", host+1) }

// claimant is a process that claims the address of a member.
type claimant struct {
	host   int
	kind   string // typo or intruder
	ps     *processes
	victim int
	now    *process // the running process
}

// countGuests returns the number of hosts beside those of the nodes.
func (o options) countGuests() int {
	if o.plain || o.isFlood() || o.witness || o.nodes < 2 {
		return 0
	}
	return claimHosts
}

// claimAddresses runs one process for each of the first members of the order. A process whose host
// is in use by another fault is left out. In the middle of the fault each typo is killed and
// started again with its store.
func (r *runner) claimAddresses(f fault, order []int) (all []action) {
	ps, kind := r.ps, strings.TrimSuffix(f.Kind, " 2")
	if kind != f.Kind {
		ps = r.other
		if leader := ps.findLeader(); f.Leader && leader >= 0 {
			order = putFirst(f.Order, leader)
		}
	}
	for _, victim := range order[:max(1, min(f.Arg, len(order)))] {
		host := slices.Index(r.claimants[:], nil)
		if host < 0 {
			break
		}
		c := &claimant{host: host, kind: kind, ps: ps, victim: victim}
		r.claimants[host] = c
		r.writeJournal("%s runs %s at the address of %s of cluster %d", hostName(host), kind,
			nodeName(victim), ps.first/r.o.nodes+1)
		all = append(all, action{at: 0, do: func() error {
			return errors.Join(os.RemoveAll(r.claimFolder(c)), r.startClaimant(c))
		}})
		if kind == typo {
			all = append(all, action{at: f.For / 2, do: func() error {
				c.now.kill()
				return r.startClaimant(c)
			}})
		}
		// The last of these actions waits until all members are active despite the typos.
		all = append(all, action{f.For, func() error { return r.endClaimant(c, f) }, kind == typo})
	}
	return all
}

// putFirst returns the order with a node moved to its beginning.
func putFirst(order []int, node int) []int {
	i := slices.Index(order, node)
	return slices.Concat([]int{node}, order[:i], order[i+1:])
}

// claimFolder returns the data directory of a typo.
func (r *runner) claimFolder(c *claimant) string {
	return filepath.Join(r.world.dir, "claim-"+hostName(c.host))
}

// startClaimant starts a process, and records that.
func (r *runner) startClaimant(c *claimant) error {
	ps, name := c.ps, hostName(c.host)
	ps.notes.appendLine(evidence{
		Kind: kindClaim, From: name, To: nodeName(c.victim), Cause: c.kind,
	})
	config, guest := ps.o.config, r.world.guest(c.host)
	config.Addr, config.Advertise = guest, ps.seeds[c.victim]
	config.Name, config.Size, config.Seeds = name, ps.o.nodes, ps.seeds
	config.Secret, config.DataDir = ps.secret, r.claimFolder(c)
	task := nodeTask{
		Name: name, Config: config, Names: ps.names, TLS: ps.o.tls, Claims: nodeName(c.victim),
		Evidence: filepath.Join(ps.o.out, name+".jsonl"),
	}
	log, err := os.OpenFile(filepath.Join(ps.o.out, name+".log"),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own copy
	role := map[string]string{typo: roleTypo, intruder: roleIntruder}[c.kind]
	p, err := launchNode(task, place{
		Netns: r.world.guestNamespace(c.host), Program: thisProgram, Role: role,
		Names: r.world.namesSocket(),
	}, log)
	if err != nil {
		return err
	}
	c.now = p
	return nil
}

// endClaimant ends a process. A typo gets SIGTERM, or SIGKILL in every second fault, and an
// intruder SIGTERM.
func (r *runner) endClaimant(c *claimant, f fault) error {
	r.claimants[c.host] = nil
	defer c.now.kill()
	if c.kind == typo && f.Order[0]%2 == 0 {
		return nil
	}
	c.now.sendSignal(syscall.SIGTERM)
	select {
	case <-c.now.ended:
		return nil
	case <-time.After(leaveTimeout):
		return fmt.Errorf("%s did not exit after SIGTERM", hostName(c.host))
	}
}

// killClaimants kills what a run that has failed left.
func (r *runner) killClaimants() {
	for _, c := range r.claimants {
		if c != nil {
			c.now.kill()
		}
	}
}

// endsDespiteClaims reports whether all that is left to do is to end typos. All members must be
// active before.
func endsDespiteClaims(left []action) bool {
	return !slices.ContainsFunc(left, func(a action) bool { return !a.claim })
}
