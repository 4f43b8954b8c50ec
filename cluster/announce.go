// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// Times of AnnounceEnd.
const (
	// announceTimeout bounds AnnounceEnd as a whole, even if the disk does not answer.
	announceTimeout = 2 * time.Second
	// strayTimeout is how long to try the rest when enough members to elect a leader know.
	strayTimeout = 200 * time.Millisecond
	// tellPause is the pause after a failed attempt.
	tellPause = 50 * time.Millisecond
	// relayTime is how long after the relays the other members are informed, but at most a quarter of
	// LeaderTimeout. In most cases they know, and an election would share the processors with these
	// connections.
	relayTime = 200 * time.Millisecond
	// goneTimeout is how long to wait for the lock of a process that has been killed.
	goneTimeout = 100 * time.Millisecond
)

// ErrRunning is the error of AnnounceEnd if a process has the lock of DataDir: the next run, or one
// that has not ended.
var ErrRunning = errors.New("cluster: a process uses the data directory")

// AnnounceEnd informs the members that every run of the node with the given configuration has
// ended, so that they elect another leader, and free its locks and jobs, immediately. Without it
// they wait for its leases, because silence does not prove that a process has ended. Call it in
// another process as soon as the process of the node has ended, for whatever reason.
//
// The proof is the lock of DataDir: the operating system frees it only when the process is gone. So
// AnnounceEnd refuses file systems for which this does not hold (CheckAnnounce), and a directory
// that does not exist. If a process has the lock, the error is ErrRunning. AnnounceEnd sends
// nothing, and returns nil, if the node never had a place or has left. It keeps the lock while it
// saves that the next run has begun. It does not wait for a member that does not answer within half
// of LeaderTimeout, because the next run may wait. If fewer than a majority know in the end, the
// error names the others.
//
// AnnounceEnd returns after at most 2 s, even if the disk does not answer. In that case it informs
// no member, and the lock stays taken until the disk answers.
func AnnounceEnd(ctx context.Context, cfg Config, opts ...Option) error {
	o := newOptions(opts)
	n := &Node{store: store.FromContext(ctx)}
	var err error
	if n.cfg, err = cfg.parse(); err != nil {
		return err
	}
	n.log = diagnosis.NewLogger(o.logger, n.cfg.Name)
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	c, err := n.awaitDisk(ctx)
	if err != nil {
		return err
	}
	self, ok := c.Held.Roster.Find(c.Origin.Address)
	if !ok || self.StoreID != c.StoreID || self.Resigned {
		return nil
	}
	n.keys.add(c.StoreID, c.Key)
	n.store = store.NewMemory([32]byte{}) // nothing that was open has to be reset
	host, _, _ := net.SplitHostPort(n.cfg.Addr)
	n.cfg.Addr = net.JoinHostPort(host, "0") // the next run may listen on the port
	return n.tellAll(ctx, o, c)
}

// awaitDisk calls endRuns, and waits until it returns or ctx is done: an operation of a disk cannot
// be canceled.
func (n *Node) awaitDisk(ctx context.Context) (c store.Content, err error) {
	ended := make(chan struct{})
	var of struct {
		content store.Content
		err     error
	}
	go func() {
		defer close(ended)
		of.content, of.err = n.endRuns(ctx)
	}()
	select {
	case <-ended:
		return of.content, of.err
	case <-ctx.Done():
		return c, fieldErrorf("DataDir", "%s: the disk does not answer: %w", n.cfg.DataDir,
			context.Cause(ctx))
	}
}

// endRuns saves the number of a run that only announces the end of the runs before it. It returns
// nothing if another process has the store. (S) Once it has the lock, the earlier runs have ended,
// and once the number is saved, the next run has a later one. So what it announces remains true.
func (n *Node) endRuns(ctx context.Context) (c store.Content, err error) {
	if n.store == nil {
		if err := n.cfg.CheckAnnounce(); err != nil {
			return c, err
		}
		if _, err := os.Stat(n.cfg.DataDir); errors.Is(err, fs.ErrNotExist) {
			return c, fieldErrorf("DataDir", "no node has run with it: %w", err)
		}
		n.store, err = openFile(ctx, n.cfg.DataDir, goneTimeout)
		switch {
		case errors.Is(err, store.ErrLocked):
			return c, fmt.Errorf("%w: %w", ErrRunning, err)
		case err != nil:
			return c, fieldErrorf("DataDir", "%s: %w", n.cfg.DataDir, err)
		}
	}
	defer func() { err = errors.Join(err, n.store.Close()) }()
	c, known, err := n.store.Load()
	if err == nil {
		err = n.cfg.checkOrigin(c, known)
	}
	if err != nil || !known || c.Held.IsZero() {
		return store.Content{}, err
	}
	c.Incarnation = nextRun(c)
	return c, n.store.Save(c)
}

// CheckAnnounce returns why AnnounceEnd would refuse the data directory: it is not set, or its file
// system may free the lock of a process that still runs.
func (c Config) CheckAnnounce() error {
	if c.DataDir == "" {
		return fieldErrorf("DataDir", "is required: its lock proves that a process has ended")
	}
	if err := store.CheckDeathProof(c.DataDir); err != nil {
		return fieldErrorf("DataDir", "%w", err)
	}
	return nil
}

// told is a member and whether it knows.
type told struct {
	member.Member
	err error
}

// announcement informs members, as a run of this node, that the runs before it have ended.
type announcement struct {
	node    *Node
	mesh    *mesh.Announcer
	run     member.Identity
	cluster member.ClusterID
	results chan told
}

// tellAll informs the members, as the run in c, that the runs before it have ended.
func (n *Node) tellAll(ctx context.Context, o options, c store.Content) error {
	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	run := member.Identity{
		Address: c.Origin.Address, StoreID: c.StoreID, Incarnation: c.Incarnation,
	}
	listen, err := n.prepareNetwork(o)
	if err != nil {
		return err
	}
	a, err := mesh.NewAnnouncer(n.meshConfig(nil), n.makeGreeting(run, c.Held.Cluster), listen)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	first, rest := splitRelays(c.Held.Roster, run.Address)
	voters := 0
	for _, e := range slices.Concat(first, rest) {
		if e.IsVoter() {
			voters++
		}
	}
	enough := min(member.Quorum(n.cfg.Size), voters)
	an := announcement{n, a, run, c.Held.Cluster, make(chan told)}
	an.tellMembers(ctx, first, true, nil)
	tellRest := func() {
		g := newGathering(ctx, len(rest), max(enough-len(first), 1), n.cfg.LeaderTimeout/2)
		an.tellMembers(ctx, rest, false, g)
	}
	go func() {
		if len(first) > 0 {
			select {
			case <-time.After(min(relayTime, n.cfg.LeaderTimeout/4)):
			case <-ctx.Done():
			}
		}
		tellRest()
	}()
	know, faults := 0, []error(nil)
	for range len(first) + len(rest) {
		r := <-an.results
		switch {
		case r.err != nil:
			faults = append(faults, fmt.Errorf("%s: %w", r.Address, r.err))
		case r.IsVoter():
			if know++; know == enough {
				time.AfterFunc(strayTimeout, cancel)
			}
		}
	}
	n.log.Info("announced that the process of this node has ended", slog.Int("voters", know),
		slog.Int64("took_ms", time.Since(began).Milliseconds()))
	if know >= enough {
		return a.Close()
	}
	few := fmt.Errorf("cluster: %d of %d members know that the process of this node has ended; "+
		"others that do not wait for its leases", know, len(first)+len(rest))
	return errors.Join(append([]error{few, a.Close()}, faults...)...)
}

// tellMembers informs members in the background. If relay is set, they relay it.
func (an *announcement) tellMembers(
	ctx context.Context, members []member.Member, relay bool, g *gathering,
) {
	for _, e := range members {
		go func() { an.results <- told{e, an.tellMember(ctx, e.Address, relay, g)} }()
	}
}

// tellMember informs one member until it answers or ctx is done. It gives up a member whose
// greeting does not arrive within half of LeaderTimeout. A member that is connected to a later run
// knows.
func (an *announcement) tellMember(
	ctx context.Context, to member.Address, relay bool, g *gathering,
) error {
	n := an.node
	frames, err := encodeEnd(an.run, to, an.cluster, n.keys.find(an.run.StoreID), relay)
	if err != nil {
		return err
	}
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	silence := time.AfterFunc(n.cfg.LeaderTimeout/2, giveUp)
	defer silence.Stop()
	ready := sync.OnceFunc(func() {
		silence.Stop()
		if g != nil {
			g.arrive()
		}
	})
	for {
		attempt, cancel := context.WithTimeout(ctx, n.cfg.LeaderTimeout)
		err := an.mesh.Tell(attempt, to, ready, frames, func(m message.Message) bool {
			return m.Body.Kind() == message.KindSeedKeepAliveAck
		})
		cancel()
		refused, _ := errors.AsType[*transport.CloseError](err)
		if err == nil || refused != nil && refused.Code == transport.CodeEarlierRun {
			return nil
		}
		select {
		case <-time.After(tellPause):
		case <-ctx.Done():
			return err
		}
	}
}

// gathering sends to all members at the same instant. A member that knows earlier asks the others,
// and the answer of one that still trusts the leader delays the election by an interval.
type gathering struct {
	arrived chan struct{}
	open    chan struct{} // closed when the message may be sent
}

// newGathering waits for all members, or for enough of them and then as long again, or until the
// timeout: fewer cannot elect a leader.
func newGathering(ctx context.Context, all, enough int, timeout time.Duration) *gathering {
	g := &gathering{arrived: make(chan struct{}), open: make(chan struct{})}
	began := time.Now()
	late := time.NewTimer(timeout)
	go func() {
		defer close(g.open)
		defer late.Stop()
		for n := 0; n < all; {
			select {
			case <-g.arrived:
				if n++; n == enough {
					late.Reset(min(time.Since(began), timeout-time.Since(began)))
				}
			case <-late.C:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return g
}

// arrive blocks until the message may be sent.
func (g *gathering) arrive() {
	select {
	case g.arrived <- struct{}{}:
		<-g.open
	case <-g.open:
	}
}
