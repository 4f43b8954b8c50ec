// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// action is a function and the time at which it is called, after the beginning of the step.
type action struct {
	at    time.Duration
	do    func() error
	claim bool // it ends a typo
}

// inflictFault converts a fault to the actions that cause and heal it. It returns no actions if the
// fault cannot affect any node.
func (r *runner) inflictFault(f fault) []action {
	order := slices.Clone(f.Order)
	if leader := r.ps.findLeader(); f.Leader && leader >= 0 {
		order = putFirst(order, leader)
	}
	r.writeJournal("%s for %v: %v", f.Kind, f.For, formatNodes(order))
	if shape := shapes[f.Kind]; shape != nil {
		if f.Kind == "split" && r.o.nodes%2 == 0 && f.Arg == r.o.nodes/2 && f.Leader {
			f.Arg-- // so that the leader's side has no majority
		}
		rules := cutRules(order, shape(r.o.nodes, f.Arg))
		if f.Kind == "flap" {
			return r.flapRules(f, rules)
		}
		return r.imposeRules(f, rules)
	}
	switch f.Kind {
	case "loss":
		return r.imposeRules(f, lossRules(order, f.Arg, false))
	case "loss at one":
		return r.imposeRules(f, lossRules(order, f.Arg, true))
	case "kill", "kill several":
		return r.endProcesses(f, order, max(f.Arg, 1), syscall.SIGKILL)
	case "leave":
		return r.endProcesses(f, order, 1, syscall.SIGTERM)
	case "stop", "stop long":
		var all []action
		for _, node := range order[:max(f.Arg, 1)] {
			all = append(all, r.stopNode(f, node)...)
		}
		return all
	case "stutter":
		return r.stutterNode(f, order[0])
	case silentNames:
		return r.silenceNames(f)
	case frozenDisk, slowDisk:
		return r.stallDisk(f, order[0])
	case lostStore:
		return r.loseStore(f, order)
	case wrongSeed:
		return r.giveWrongSeed(f, order)
	case wrongSeedOther:
		return r.giveOtherWrongSeed(f, order)
	case typo, typoOther, intruder, intruderOther:
		return r.claimAddresses(f, order)
	default:
		return r.starveNode(f, order)
	}
}

func formatNodes(nodes []int) (all []string) {
	for _, node := range nodes {
		all = append(all, nodeName(node))
	}
	return all
}

func (r *runner) imposeRules(f fault, rules []rule) []action {
	var lift func() error
	return []action{
		{at: 0, do: func() (err error) { lift, err = r.world.net.imposeRules(rules); return err }},
		{at: f.For, do: func() error { return lift() }},
	}
}

// flapRules cuts and heals links alternately, about as often as members become unreachable.
func (r *runner) flapRules(f fault, rules []rule) []action {
	half := r.o.config.HeartbeatTimeout
	var all []action
	for at := time.Duration(0); at < f.For; at += 2 * half {
		once := r.imposeRules(fault{For: half}, rules)
		all = append(all, action{at: at, do: once[0].do}, action{at: at + half, do: once[1].do})
	}
	return all
}

// killableNodes returns, in the given order, the nodes whose processes may be ended.
func (r *runner) killableNodes(order []int) []int {
	return slices.DeleteFunc(slices.Clone(order), func(node int) bool { return node < r.spare })
}

// endProcesses ends processes and restarts them with their stores.
func (r *runner) endProcesses(f fault, order []int, count int, signal syscall.Signal) []action {
	var all []action
	for _, node := range r.killableNodes(order)[:min(count, len(r.killableNodes(order)))] {
		all = append(all,
			action{at: 0, do: func() error {
				r.ps.nodes[node].sendSignal(signal)
				if signal != syscall.SIGKILL {
					return nil
				}
				if err := r.ps.killNode(node); err != nil {
					return err
				}
				return r.ps.announceDaemon(node)
			}},
			action{at: f.For, do: func() error { return r.restartNode(node) }})
	}
	return all
}

// restartNode starts a node that has ended. It does nothing if the node is still leaving.
func (r *runner) restartNode(node int) error {
	p := r.ps.nodes[node]
	if p.isAlive() {
		return nil
	}
	r.restarts++
	if err := r.noteKilled(node, p); err != nil {
		return err
	}
	r.writeJournal("restart %s, which ended with %v", nodeName(node), p.cmd.ProcessState)
	return r.ps.startNode(node)
}

// noteKilled records killed runs. A flood excuses the events that they had in flight.
func (r *runner) noteKilled(node int, p *process) error {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !r.o.isFlood() || !ok || status.Signal() != syscall.SIGKILL {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(r.o.out, killedFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, nodeName(node), r.ps.starts[node])
	return errors.Join(err, file.Close())
}

func (r *runner) stopNode(f fault, node int) []action {
	p := r.ps.nodes[node]
	return []action{
		{at: 0, do: func() error { p.sendSignal(syscall.SIGSTOP); return nil }},
		{at: f.For, do: func() error { p.sendSignal(syscall.SIGCONT); return nil }},
	}
}

// stutterNode lets a process run a third of the time, in short pieces.
func (r *runner) stutterNode(f fault, node int) []action {
	const piece = 60 * time.Millisecond
	var all []action
	for at := time.Duration(0); at < f.For; at += 3 * piece {
		once := r.stopNode(fault{For: 2 * piece}, node)
		all = append(all, action{at: at, do: once[0].do}, action{at: at + 2*piece, do: once[1].do})
	}
	return all
}

// loseStore deletes the store of a node. From then on even a seed may only join: it must not found
// a second cluster while the others may still hold the first.
func (r *runner) loseStore(f fault, order []int) []action {
	order = r.killableNodes(order)
	if len(order) == 0 {
		return nil
	}
	node := order[0]
	return []action{
		{at: 0, do: func() error {
			if err := r.ps.killNode(node); err != nil {
				return err
			}
			r.ps.lost[node] = true
			r.ps.notes.appendLine(evidence{Kind: kindLost, To: nodeName(node)})
			return os.RemoveAll(r.ps.storeFolder(node))
		}},
		{at: f.For, do: func() error { return r.restartNode(node) }},
	}
}

// starveNode deprives a node of disk space, file descriptors or memory. The node may stop as a
// result, since it must not continue without saving.
func (r *runner) starveNode(f fault, order []int) []action {
	order = r.killableNodes(order)
	if len(order) == 0 {
		return nil
	}
	node := order[0]
	starved := map[string][2]func(node int) error{
		"full disk": {r.fillDisk, r.freeDisk},
		"no files":  {r.takeFiles, r.giveFiles},
		"no memory": {r.world.limitNode, r.world.unlimitNode},
	}[f.Kind]
	if f.Kind == "no memory" && r.world.groups == nil {
		return nil
	}
	return []action{
		{at: 0, do: func() error { return starved[0](node) }},
		{at: f.For, do: func() error {
			return errors.Join(starved[1](node), r.restartNode(node))
		}},
	}
}

// takeFiles prevents a process from opening files. Open files stay open.
func (r *runner) takeFiles(node int) error {
	return r.limitFiles(node, func(l *unix.Rlimit) { l.Cur = 0 })
}

func (r *runner) giveFiles(node int) error {
	return r.limitFiles(node, func(l *unix.Rlimit) { l.Cur = l.Max })
}

func (r *runner) limitFiles(node int, change func(*unix.Rlimit)) error {
	p := r.ps.nodes[node]
	if !p.isAlive() {
		return nil
	}
	var limit unix.Rlimit
	err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &limit)
	if err == nil {
		change(&limit)
		err = unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_NOFILE, &limit, nil)
	}
	if errors.Is(err, unix.ESRCH) {
		return nil // the process has already ended
	}
	return err
}
