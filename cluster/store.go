// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
	"github.com/athena-go/athena/transport/quicnet"
)

// startTimeout is how long Start waits for a process that locks the data directory, which may just
// announce the end of the last run.
const startTimeout = 500 * time.Millisecond

// lockPause is the pause between two attempts to lock the data directory.
const lockPause = 5 * time.Millisecond

// openStore opens the store in the data directory, or a store in memory if no directory is
// configured.
func (n *Node) openStore(ctx context.Context) (store.Store, error) {
	if n.cfg.DataDir == "" {
		if !n.cfg.Memory {
			n.log.Warn("no data directory is set: this node forgets its votes when it stops")
		}
		secret, err := n.cfg.resetSecret()
		if err != nil {
			return nil, fmt.Errorf("cluster: %w", err)
		}
		key, err := quicnet.DeriveResetKey(secret, n.cfg.Advertise)
		if err != nil {
			return nil, err
		}
		return store.NewMemory(key), nil
	}
	s, err := openFile(ctx, n.cfg.DataDir, startTimeout)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", fieldErrorf("DataDir", "%s: %w", n.cfg.DataDir, err))
	}
	return s, nil
}

// openFile opens the store in a directory. If another process has it, openFile tries again until
// the timeout: a process that was killed a moment ago may not be gone yet, and AnnounceEnd keeps
// the lock for a few milliseconds.
func openFile(ctx context.Context, dir string, timeout time.Duration) (*store.File, error) {
	for late := time.Now().Add(timeout); ; {
		s, err := store.OpenFile(dir)
		if !errors.Is(err, store.ErrLocked) || !time.Now().Before(late) {
			return s, err
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// beginRun loads the store and saves the identity of this run before any other node sees it. A used
// store that was made for another origin stays unchanged. An unused store is initialized again, so
// that an operator need not remove it after a first start with a wrong name. The incarnation grows
// even if the store was lost, provided that the wall clock did not go back.
//
// It also returns the incarnation of the last run, or 0 if the store is new.
func (n *Node) beginRun(ctx context.Context) (d paxos.Durable, lastRun uint64, err error) {
	c, known, err := n.store.Load()
	if err != nil {
		return d, 0, fmt.Errorf("cluster: cannot read the store: %w", err)
	}
	if err := n.cfg.checkOrigin(c, known); err != nil {
		return d, 0, err
	}
	if !known || c.Origin != n.cfg.storeOrigin() {
		c.Key = storekey.New()
		c.StoreID = c.Key.StoreID()
	} else if err := n.waitOldLeases(ctx, c); err != nil {
		return d, 0, err
	} else {
		lastRun = c.Incarnation
	}
	c.Incarnation = nextRun(c)
	n.keys.add(c.StoreID, c.Key)
	if err := n.saveDurable(c.Durable); err != nil {
		return d, 0, fmt.Errorf("cluster: cannot save state: %w", err)
	}
	return c.Durable, lastRun, nil
}

// nextRun returns the incarnation of the run after all that the store knows.
func nextRun(c store.Content) uint64 {
	return max(c.Incarnation+1, uint64(time.Now().UnixMilli()))
}

// storeKeys holds the key of the store. A node with a store in memory may begin a run with a new
// store. Until its next view shows that run, it still greets with the former store.
type storeKeys struct {
	mu              sync.Mutex
	current, former storeKey
}

type storeKey struct {
	id  member.StoreID
	key storekey.Key
}

func (k *storeKeys) add(id member.StoreID, key storekey.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current, k.former = storeKey{id, key}, k.current
}

// newStore makes the key of a new store and returns its id.
func (k *storeKeys) newStore() member.StoreID {
	key := storekey.New()
	id := key.StoreID()
	k.add(id, key)
	return id
}

// find returns the key of a store of this node.
func (k *storeKeys) find(id member.StoreID) storekey.Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	if id == k.former.id {
		return k.former.key
	}
	return k.current.key
}

func (n *Node) saveDurable(d paxos.Durable) error {
	owed := n.cfg.owed()
	return n.saveContent(store.Content{
		Origin: n.cfg.storeOrigin(), LeaseTimeout: owed.Lease, HoldTimeout: owed.Hold,
		Key: n.keys.find(d.StoreID), Durable: d,
	})
}

func (n *Node) saveContent(c store.Content) error {
	n.reporter.Disk.Begin(diagnosis.Save)
	began := time.Now()
	err := n.store.Save(c)
	n.reporter.Metrics.Saved.Observe(time.Since(began))
	n.reporter.Disk.End(diagnosis.Save, err)
	return err
}

// probeInterval is how often a node writes a few bytes to its store while it saves nothing, so that
// it notices a disk that does not answer before something depends on it. A member of an idle
// cluster saves nothing for days.
const probeInterval = 5 * time.Second

// probeDisk probes the store until the node stops. A probe does not delay the event loop: a cluster
// that saves nothing keeps its leader while a backup freezes a file system.
func (n *Node) probeDisk() {
	for {
		select {
		case <-n.life.Done():
			return
		case <-time.After(max(0, probeInterval-n.reporter.Disk.Idle())):
		}
		if n.reporter.Disk.Idle() < probeInterval {
			continue // the node has saved
		}
		done := make(chan struct{})
		n.reporter.Disk.Begin(diagnosis.Probe)
		go func() {
			defer close(done)
			err := n.store.Probe()
			if n.life.Err() != nil {
				err = nil // the store may be closed
			}
			n.reporter.Disk.End(diagnosis.Probe, err)
		}()
		select {
		case <-done:
			continue
		case <-n.life.Done():
		}
		select {
		case <-done:
		case <-time.After(closeTimeout): // the disk does not answer; the node has stopped
		}
		return
	}
}

// oldLeaseStep is the interval at which waitOldLeases saves the remaining time of the wait. So a
// node that is restarted during the wait, for example by a health check, does not start the wait
// again.
const oldLeaseStep = 5 * time.Second

// waitOldLeases blocks until the leases that the last run granted under longer timeouts have
// expired. It leaves out the time that the machine waits anyway (statemachine.Owed).
func (n *Node) waitOldLeases(ctx context.Context, c store.Content) error {
	owed := statemachine.Owed{Lease: c.LeaseTimeout, Hold: cmp.Or(c.HoldTimeout, c.LeaseTimeout)}
	next := n.cfg.owed()
	if n.cfg.Size == 1 {
		owed = owed.Alone(next, c.Durable.Held.Records)
	}
	before, left := owed, owed.Wait(next)
	if left == 0 {
		return nil
	}
	n.log.Warn("waiting for leases granted under the old timeouts to expire",
		slog.Float64("lease_before_ms", diagnosis.Milliseconds(before.Lease)),
		slog.Float64("lease_ms", diagnosis.Milliseconds(next.Lease)),
		slog.Float64("hold_before_ms", diagnosis.Milliseconds(before.Hold)),
		slog.Float64("hold_ms", diagnosis.Milliseconds(next.Hold)),
		slog.Float64("wait_ms", diagnosis.Milliseconds(left)))
	for left > 0 {
		step := min(oldLeaseStep, left)
		select {
		case <-time.After(step):
		case <-ctx.Done():
			return fmt.Errorf("cluster: %w", fieldErrorf("LeaseTimeout", "was %v in the last run, and "+
				"records were held for %v: wait until the leases of that run have expired: %w",
				before.Lease, before.Hold, context.Cause(ctx)))
		}
		left -= step
		owed = owed.After(step, next)
		c.LeaseTimeout, c.HoldTimeout = owed.Lease, owed.Hold
		if err := n.saveContent(c); err != nil {
			return fmt.Errorf("cluster: cannot save state: %w", err)
		}
	}
	return nil
}

// owed returns what a run with this configuration owes to others.
func (s settings) owed() statemachine.Owed {
	return statemachine.OwedBy(s.timings, s.otherTimings)
}

// storeOrigin returns the origin that the store of this node must have.
func (s settings) storeOrigin() store.Origin {
	return store.Origin{Cluster: s.Cluster, Size: s.Size, Address: s.self}
}

// checkOrigin returns an error if a store was made for another origin and has been used.
func (s settings) checkOrigin(c store.Content, known bool) error {
	if !known || c.IsUnused() || c.Origin == s.storeOrigin() {
		return nil
	}
	return &StoreMismatchError{
		Dir: s.DataDir, Made: StoreOrigin(c.Origin), Given: StoreOrigin(s.storeOrigin()),
	}
}

// CheckStore returns the error that Start would return for the store in DataDir: a
// *StoreMismatchError, or why the store or its key cannot be read, made or written. It changes
// nothing and may be called while a node uses the store. It returns nil if DataDir is empty or
// has no store yet.
func (c Config) CheckStore() error {
	s, err := c.parse()
	if err != nil || s.DataDir == "" {
		return err
	}
	content, known, err := store.Peek(s.DataDir)
	if err != nil {
		return fmt.Errorf("cluster: %w", fieldErrorf("DataDir", "%s: %w", s.DataDir, err))
	}
	return s.checkOrigin(content, known)
}

// StoreMismatchError means that the Cluster, Size or Advertise of the configuration is not the one
// that the store was made for. The node has sent nothing and has not changed the store.
//
// Running with such a store could break promises that the node made when it voted. Size determines
// the majority: two of three nodes that restart as clusters of one would both lead. The address is
// part of the voter's identity (protocol.md section 1), so a vote does not count at another
// address, and a copied directory would give two members one store id. To move a node, start it at
// the new address with an empty store.
type StoreMismatchError struct {
	Dir   string      // Config.DataDir
	Made  StoreOrigin // recorded in the store
	Given StoreOrigin // from the configuration
}

// StoreOrigin identifies the node that a store was made for.
type StoreOrigin struct {
	Cluster string // name of the cluster
	Size    int    // number of members of the full cluster
	Address member.Address
}

// Error names each difference with both values, and what to do.
func (e *StoreMismatchError) Error() string {
	return "cluster: " + e.Text(func(field string) string { return field })
}

// Text is like Error, but with other names for the fields of Config that it mentions.
func (e *StoreMismatchError) Text(name func(field string) string) string {
	var b strings.Builder
	b.WriteString("the store was made for another configuration")
	if e.Dir != "" {
		fmt.Fprintf(&b, ": %s", e.Dir)
	}
	differ := func(field string, made, given any, advice string) {
		if made != given {
			fmt.Fprintf(&b, "\n%s %v: the store was made for %v: %s", field, given, made, advice)
		}
	}
	differ(name("Cluster"), strconv.Quote(e.Made.Cluster), strconv.Quote(e.Given.Cluster),
		"start with that name")
	differ(name("Size"), e.Made.Size, e.Given.Size, "start with that size and the seeds of before, "+
		"as on a node that still runs, also if fewer nodes are left; athena resize is only for a "+
		"whole, stopped cluster")
	differ(name("Advertise"), e.Made.Address, e.Given.Address,
		"start at that address, the only one at which its vote counts, or empty the data directory: "+
			"the node then joins as a new member, in a full cluster once athena release has removed its "+
			"former seat (a seed of a cluster without a leader needs "+name("JoinOnly")+
			" until it has joined)")
	return b.String()
}
