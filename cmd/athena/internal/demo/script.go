// SPDX-License-Identifier: Apache-2.0

//go:build unix

package demo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// patience is how long a script waits for one thing to happen.
	patience = 30 * time.Second
	// voteWait is a little more than the LeaseTimeout of the demo's nodes.
	voteWait = 1100 * time.Millisecond
)

var errImpatient = errors.New("it did not happen in time")

// scripts are the values of --script.
var scripts = map[string]func(context.Context, *fleet) error{
	"failover":  failoverScript,
	"partition": partitionScript,
	"rolling":   rollingScript,
}

// waitFor waits for something, and fails when it does not happen.
func (f *fleet) waitFor(ctx context.Context, what string, is func() bool) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errImpatient)
	defer cancel()
	at, err := f.waitUntil(ctx, is)
	if errors.Is(err, errImpatient) {
		err = fmt.Errorf("%s: %w (%v)", what, err, patience)
	}
	return at, err
}

// waitFormed waits until all nodes are active, and returns the leader.
func (f *fleet) waitFormed(ctx context.Context) (leader *node, at time.Time, err error) {
	at, err = f.waitFor(ctx, "all nodes active", func() bool {
		leader = leaderOf(f.nodes)
		return leader != nil && isSettled(f.nodes, len(f.nodes))
	})
	return leader, at, err
}

// waitReplaced waits until another node leads with a greater token.
func (f *fleet) waitReplaced(
	ctx context.Context, old *node, token uint64) (*node, time.Time, error,
) {
	var next *node
	at, err := f.waitFor(ctx, "another leader than "+old.name, func() bool {
		next = leaderOf(f.otherNodes(old))
		return next != nil && next.status.Token > token
	})
	return next, at, err
}

// currentToken is that of the present leader.
func (f *fleet) currentToken(leader *node) (token uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if leader.status != nil {
		token = leader.status.Token
	}
	return token
}

// printResult prints how long something took.
func (f *fleet) printResult(what string, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(f.tell.out, "result     %s: %d ms\n", what, took.Milliseconds())
}

// printNote prints what the script does.
func (f *fleet) printNote(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tell.printLine(time.Now(), format, args...)
}

func failoverScript(ctx context.Context, f *fleet) error {
	old, _, err := f.waitFormed(ctx)
	if err != nil {
		return err
	}
	token, killed := f.currentToken(old), time.Now()
	if err := f.killNode(old); err != nil {
		return err
	}
	next, led, err := f.waitReplaced(ctx, old, token)
	if err != nil {
		return err
	}
	gone := func() bool { return old.proc == nil }
	if _, err := f.waitFor(ctx, "the end of "+old.name, gone); err != nil {
		return err
	}
	started := time.Now()
	if err := f.startNode(old); err != nil {
		return err
	}
	_, again, err := f.waitFormed(ctx)
	if err != nil {
		return err
	}
	f.printResult(fmt.Sprintf("%s killed, until %s led with authority", old.name, next.name),
		led.Sub(killed))
	f.printResult(old.name+" started again, until all were active", again.Sub(started))
	return nil
}

func partitionScript(ctx context.Context, f *fleet) error {
	old, _, err := f.waitFormed(ctx)
	if err != nil {
		return err
	}
	followers := f.otherNodes(old)
	few := (len(f.nodes)-1)/2 - 1 // followers that fall into the minority
	minority, majority := append([]*node{old}, followers[:few]...), followers[few:]
	token, parted := f.currentToken(old), time.Now()
	if err := f.cutLinks(minority...); err != nil {
		return err
	}
	ended, err := f.waitFor(ctx, old.name+" without authority", func() bool {
		return old.status != nil && !old.status.IsLeader()
	})
	if err != nil {
		return err
	}
	next, led, err := f.waitReplaced(ctx, old, token)
	if err != nil {
		return err
	}
	if _, err := f.waitFor(ctx, "the majority at rest", func() bool {
		return isSettled(majority, len(majority))
	}); err != nil {
		return err
	}
	healed := time.Now()
	if err := f.healLinks(minority...); err != nil {
		return err
	}
	_, again, err := f.waitFormed(ctx)
	if err != nil {
		return err
	}
	f.printResult(fmt.Sprintf("%s cut off, until its authority ended", old.name), ended.Sub(parted))
	f.printResult(fmt.Sprintf("%s cut off, until %s led with authority", old.name, next.name),
		led.Sub(parted))
	f.printResult("healed, until all were active under one leader", again.Sub(healed))
	return nil
}

func rollingScript(ctx context.Context, f *fleet) error {
	for _, n := range f.nodes {
		if err := f.restartInOrder(ctx, n); err != nil {
			return err
		}
		// A node that was just started votes for nobody, since a lease may run
		// that it supported before. With many of these nobody can be elected.
		f.printNote("waiting %v, until %s can vote again", voteWait, n.name)
		select {
		case <-time.After(voteWait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// restartInOrder lets one node leave, and starts it again.
func (f *fleet) restartInOrder(ctx context.Context, n *node) error {
	leader, _, err := f.waitFormed(ctx)
	if err != nil {
		return err
	}
	token, told := f.currentToken(leader), time.Now()
	if err := f.letLeave(ctx, n); err != nil {
		return err
	}
	left := time.Now()
	f.printResult(n.name+" left", left.Sub(told))
	if n == leader {
		next, led, err := f.waitReplaced(ctx, n, token)
		if err != nil {
			return err
		}
		f.printResult(fmt.Sprintf("%s led, until %s led with authority", n.name, next.name),
			led.Sub(told))
	}
	started := time.Now()
	if err := f.startNode(n); err != nil {
		return err
	}
	_, again, err := f.waitFormed(ctx)
	if err != nil {
		return err
	}
	f.printResult(n.name+" started again, until all were active", again.Sub(started))
	return nil
}
