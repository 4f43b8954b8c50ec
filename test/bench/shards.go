// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/test/children"
)

var errTwoOwners = errors.New(
	"two nodes owned one shard at the same time, or its tokens did not increase")

// shardRun reports when the work on a shard begins or ends, in nanoseconds of CLOCK_MONOTONIC.
type shardRun struct {
	Shard int
	Token member.Token
	At    int64
	Ended bool
}

// ownedRun is a period of work on a shard.
type ownedRun struct {
	owner        *process
	token        member.Token
	began, ended int64 // ended is 0 while the work runs
}

// runShards makes this node a worker of shards. The work on each shard prints when it begins and
// ends.
func (c *child) runShards(count int) error {
	shards, err := election.NewShards(c.node.Records(), "shards", count)
	if err != nil {
		return err
	}
	go func() {
		work := func(ctx context.Context, shard int, term leader.Term) error {
			r := shardRun{Shard: shard, Token: term.Token(), At: children.ReadMonotonic()}
			c.exitOnError(c.printLine(line{Shard: &r}))
			<-ctx.Done()
			r.At, r.Ended = children.ReadMonotonic(), true
			c.exitOnError(c.printLine(line{Shard: &r}))
			return nil
		}
		c.exitOnError(shards.Run(context.Background(), work))
	}()
	return nil
}

// takeShard stores what a node has printed. ps.group must be held.
func (ps *processes) takeShard(p *process, r shardRun) {
	runs := &ps.runs[r.Shard]
	if !r.Ended {
		*runs = append(*runs, ownedRun{owner: p, token: r.Token, began: r.At})
		slices.SortFunc(*runs, func(a, b ownedRun) int { return cmp.Compare(a.began, b.began) })
		return
	}
	for i, o := range *runs {
		if o.owner == p && o.token == r.Token && o.ended == 0 {
			(*runs)[i].ended = r.At
		}
	}
}

// measureShards starts workers of shards, and kills and restarts one of them at a time.
func measureShards(ctx context.Context, o Options, rec *recorder) error {
	for _, n := range o.Sizes {
		if err := measureShardsOf(ctx, o, rec, n); err != nil {
			return fmt.Errorf("n=%d: %w", n, err)
		}
	}
	for _, column := range []string{"ms", "moves", "needed"} {
		if err := rec.printTable(column, "n", "shards", "what"); err != nil {
			return err
		}
	}
	return nil
}

func measureShardsOf(ctx context.Context, o Options, rec *recorder, n int) error {
	ps, _, err := startSettled(ctx, o, n)
	if err != nil {
		return err
	}
	defer ps.killAll()
	ps.runs = make([][]ownedRun, o.Jobs)
	run := order{Do: doShards, Count: int64(o.Jobs)}
	measure := func(rep int, what string, change func() (at int64, err error)) error {
		r, err := ps.measureMoves(ctx, change)
		if r != nil {
			r["n"], r["rep"], r["shards"], r["what"] = n, rep, o.Jobs, what
		}
		return errors.Join(err, rec.recordResult(r, err))
	}
	err = measure(0, "start", func() (at int64, err error) {
		at = children.ReadMonotonic()
		_, err = ps.sendOrders(ctx, run)
		return at, err
	})
	for rep := 0; rep < o.Reps && err == nil; rep++ {
		if err = restFor(ctx, rand.N(time.Second)); err != nil {
			return err
		}
		i := rand.N(n)
		err = measure(rep, "kill", func() (int64, error) { return ps.killWorker(ps.all[i]) })
		if err == nil {
			err = measure(rep, "restart", func() (int64, error) { return ps.restartNode(ctx, i, run) })
		}
	}
	return errors.Join(err, ps.checkShards())
}

// killWorker kills a node, whose work ends with it.
func (ps *processes) killWorker(p *process) (at int64, err error) {
	at, err = p.Signal(syscall.SIGKILL)
	ps.group.Read(func() { p.died = at })
	return at, err
}

// restartNode starts a node again with its store, and makes it a worker.
func (ps *processes) restartNode(ctx context.Context, i int, run order) (at int64, err error) {
	p, err := ps.startProcess(ps.all[i].setup)
	if err != nil {
		return 0, err
	}
	ps.group.Read(func() { ps.all[i] = p })
	if err := ps.waitReady(ctx); err != nil {
		return 0, err
	}
	at = children.ReadMonotonic()
	if err := p.Send("go"); err != nil {
		return 0, err
	}
	if _, err := ps.waitUntil(ctx, func() bool { return ps.haveAgreed(0, len(ps.all)) }); err != nil {
		return 0, fmt.Errorf("wait for the restarted node: %w", err)
	}
	_, err = p.sendOrder(ctx, run)
	return at, err
}

// measureMoves makes a change, and waits until all live nodes own their shares. A second later it
// counts the moves.
func (ps *processes) measureMoves(
	ctx context.Context, change func() (at int64, err error),
) (row, error) {
	var before, after shares
	ps.group.Read(func() { before = ps.readShares() })
	at, err := change()
	if err != nil {
		return nil, err
	}
	isFair := func() bool {
		after = ps.readShares()
		return after.fair
	}
	if _, err := ps.waitUntil(ctx, isFair); err != nil {
		return nil, fmt.Errorf("wait for fair shares: %w", err)
	}
	last := after.last
	if err := restFor(ctx, time.Second); err != nil {
		return nil, err
	}
	ps.group.Read(func() { after = ps.readShares() })
	return row{
		"ms": toMilliseconds(last - at), "moves": float64(after.moves - before.moves),
		"needed": float64(before.movesTo(after)),
	}, nil
}

// shares are the numbers of shards that the live nodes own.
type shares struct {
	counts map[string]int // by address
	owned  int
	fair   bool  // all shards are owned, and the counts differ by at most 1
	last   int64 // when the last work began
	moves  int   // changes of owner so far
	had    int   // shards that have had an owner
}

// readShares reads what the nodes have printed. ps.group must be held.
func (ps *processes) readShares() shares {
	s := shares{counts: map[string]int{}}
	for _, p := range ps.listAlive() {
		s.counts[p.address] = 0
	}
	for _, runs := range ps.runs {
		for i, r := range runs {
			if i > 0 && runs[i-1].owner.address != r.owner.address {
				s.moves++
			}
		}
		if len(runs) == 0 {
			continue
		}
		s.had++
		if r := runs[len(runs)-1]; r.endedAt() == 0 {
			s.owned++
			s.counts[r.owner.address]++
			s.last = max(s.last, r.began)
		}
	}
	counts := slices.Collect(maps.Values(s.counts))
	s.fair = s.owned == len(ps.runs) && slices.Max(counts)-slices.Min(counts) <= 1
	return s
}

// movesTo returns the least number of moves from s to fair shares of the nodes in later.
func (s shares) movesTo(later shares) int {
	var counts []int
	moves := s.had
	for address := range later.counts {
		counts = append(counts, s.counts[address])
		moves -= s.counts[address]
	}
	slices.Sort(counts)
	slices.Reverse(counts)
	share, rest := later.had/len(counts), later.had%len(counts)
	for i, n := range counts {
		if i < rest {
			n--
		}
		moves += max(0, n-share)
	}
	return moves
}

// endedAt returns when the work or its process ended, or 0 if the work still runs.
func (r ownedRun) endedAt() int64 {
	if r.ended == 0 {
		return r.owner.died
	}
	return r.ended
}

// checkShards returns an error if the work of a shard began before the earlier work had ended.
func (ps *processes) checkShards() (err error) {
	ps.group.Read(func() {
		for shard, runs := range ps.runs {
			for i := 1; i < len(runs); i++ {
				a, b := runs[i-1], runs[i]
				if a.endedAt() == 0 || b.began < a.endedAt() || b.token.Less(a.token) {
					err = fmt.Errorf("%w: shard %d: %+v, then %+v", errTwoOwners, shard, a, b)
				}
			}
		}
	})
	return err
}
