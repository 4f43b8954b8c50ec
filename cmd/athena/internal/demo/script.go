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
	// stepTimeout limits how long each step of a script may wait.
	stepTimeout = 30 * time.Second
	// voteWait is the LeaseTimeout of the nodes plus 100 ms.
	voteWait = 1100 * time.Millisecond
)

var errStepTimeout = errors.New("timed out")

// scripts maps the values of --script to functions.
var scripts = map[string]func(context.Context, *fleet) error{
	"failover":  failoverScript,
	"partition": partitionScript,
	"rolling":   rollingScript,
}

// waitFor is like waitUntil, but with a timeout. The error names the condition.
func (f *fleet) waitFor(
	ctx context.Context, what string, condition func() bool,
) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stepTimeout, errStepTimeout)
	defer cancel()
	at, err := f.waitUntil(ctx, condition)
	if errors.Is(err, errStepTimeout) {
		err = fmt.Errorf("waiting for %s: %w after %v", what, err, stepTimeout)
	}
	return at, err
}

// waitFormed waits until all nodes are active, then returns the leader.
func (f *fleet) waitFormed(ctx context.Context) (leader *node, at time.Time, err error) {
	at, err = f.waitFor(ctx, "all nodes to be active", func() bool {
		leader = leaderOf(f.nodes)
		return leader != nil && isSettled(f.nodes, len(f.nodes))
	})
	return leader, at, err
}

// waitReplaced waits until another node leads with a higher token.
func (f *fleet) waitReplaced(
	ctx context.Context, old *node, token uint64) (*node, time.Time, error,
) {
	var next *node
	at, err := f.waitFor(ctx, "a leader other than "+old.name, func() bool {
		next = leaderOf(f.otherNodes(old))
		return next != nil && next.status.Token > token
	})
	return next, at, err
}

// currentToken returns the token that the leader last reported.
func (f *fleet) currentToken(leader *node) (token uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if leader.status != nil {
		token = leader.status.Token
	}
	return token
}

// printResult prints a measured time.
func (f *fleet) printResult(what string, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(f.tell.out, "result     %s: %d ms\n", what, took.Milliseconds())
}

// printNote prints a step of the script.
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
	exited := func() bool { return old.proc == nil }
	if _, err := f.waitFor(ctx, old.name+" to exit", exited); err != nil {
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
	f.printResult(fmt.Sprintf("from killing %s until %s led with authority", old.name, next.name),
		led.Sub(killed))
	f.printResult("from restarting "+old.name+" until all nodes were active", again.Sub(started))
	return nil
}

func partitionScript(ctx context.Context, f *fleet) error {
	old, _, err := f.waitFormed(ctx)
	if err != nil {
		return err
	}
	followers := f.otherNodes(old)
	few := (len(f.nodes)-1)/2 - 1 // number of followers in the minority
	minority, majority := append([]*node{old}, followers[:few]...), followers[few:]
	token, parted := f.currentToken(old), time.Now()
	if err := f.cutLinks(minority...); err != nil {
		return err
	}
	ended, err := f.waitFor(ctx, old.name+" to lose its lease", func() bool {
		return old.status != nil && !old.status.IsLeader()
	})
	if err != nil {
		return err
	}
	next, led, err := f.waitReplaced(ctx, old, token)
	if err != nil {
		return err
	}
	if _, err := f.waitFor(ctx, "the majority to agree on its members", func() bool {
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
	f.printResult("from isolating "+old.name+" until its lease ended", ended.Sub(parted))
	f.printResult(fmt.Sprintf("from isolating %s until %s led with authority", old.name, next.name),
		led.Sub(parted))
	f.printResult("from reconnecting until all nodes were active", again.Sub(healed))
	return nil
}

func rollingScript(ctx context.Context, f *fleet) error {
	for _, n := range f.nodes {
		if err := f.rollNode(ctx, n); err != nil {
			return err
		}
		// For a LeaseTimeout after its start, a node does not vote, since it may have supported a lease
		// that has not expired. Several such nodes would prevent an election.
		f.printNote("waiting %v until %s can vote", voteWait, n.name)
		select {
		case <-time.After(voteWait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// rollNode makes a node leave and then starts it again.
func (f *fleet) rollNode(ctx context.Context, n *node) error {
	leader, _, err := f.waitFormed(ctx)
	if err != nil {
		return err
	}
	token, signaled := f.currentToken(leader), time.Now()
	if err := f.stopNode(ctx, n); err != nil {
		return err
	}
	left := time.Now()
	f.printResult("from stopping "+n.name+" until it had left", left.Sub(signaled))
	if n == leader {
		next, led, err := f.waitReplaced(ctx, n, token)
		if err != nil {
			return err
		}
		f.printResult(fmt.Sprintf("from stopping leader %s until %s led with authority",
			n.name, next.name), led.Sub(signaled))
	}
	started := time.Now()
	if err := f.startNode(n); err != nil {
		return err
	}
	_, again, err := f.waitFormed(ctx)
	if err != nil {
		return err
	}
	f.printResult("from restarting "+n.name+" until all nodes were active", again.Sub(started))
	return nil
}
