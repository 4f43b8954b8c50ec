// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"runtime/metrics"
	"syscall"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/test/workload"
	"github.com/athena-go/athena/transport/tlsnet"
)

const (
	// authorityTick is the interval at which a leader checks its authority. Shorter overlaps
	// are not detected.
	authorityTick = 500 * time.Microsecond
	// holdLine is the interval at which a leader records that it still has authority.
	holdLine = 10 * time.Millisecond
	// sendTick is the pause between two events to a member. Of every burstEvery events, the first
	// burst are sent without pauses.
	sendTick    = 50 * time.Millisecond
	sendTimeout = time.Second
	burstEvery  = 40
	burst       = 20
	// One event in largeEvery has largeBytes. Such an event needs many packets, so that smaller events
	// wait behind it.
	largeEvery = 16
	largeBytes = 16 << 10
	// eventsLine is how long consecutive events are collected before they are recorded in one line.
	eventsLine = 100 * time.Millisecond
	// keyTime is how long the nodes use a record and a lock before they use others.
	keyTime = 10 * time.Second
	// reportTick is the longest interval between two reports to the runner.
	reportTick = 250 * time.Millisecond
	// A pause of a process is recorded as a stall if it exceeds LeaderTimeout / stallPart, because two
	// such pauses depose a leader.
	stallPart = 2
	// contended is the lock for which all nodes contend if there is a history. One acquisition in
	// takeEvery is followed by the removal of the lock from its next holder.
	contended = "contended"
	takeEvery = 8
	holdLock  = 50 * time.Millisecond
	pauseLock = 100 * time.Millisecond
)

// nodeTask is the task of a node.
type nodeTask struct {
	Name     string
	Config   cluster.Config
	Names    map[string]string // names of the nodes, by address
	Evidence string            // path of its evidence
	Register string            // path of the register's socket
	TLS      bool              // the node uses TLS on TCP instead of QUIC
	Guard    bool              // the process has a guard, which announces its end
	Flood    *floodTask        // nil if the node sends the events of a normal run
	History  string            // path of the file for its steps; empty for none
	// Claims is the member whose address the process claims, although it listens elsewhere.
	Claims string
}

// numbered is the event of a normal run.
type numbered struct {
	From string
	Run  int64
	Seq  uint64
	Rest []byte // makes it larger
}

// report is a line that a node prints for the runner.
type report struct {
	At         int64
	Leads      bool
	Token      uint64 // token of the quorate leader, or 0
	Active     int
	Goroutines int
	HeapBytes  uint64 // live objects and uncollected garbage
	Idle       bool   // the node has stopped sending and knows all outcomes
}

// testNode is a node that records evidence.
type testNode struct {
	task     nodeTask
	evidence *evidenceFile
	node     *cluster.Node
	got      spanLog // by sender
	sent     spanLog // by receiver

	flood *flood // nil in a normal run
}

// nodeMain runs a node until the runner ends, or until it leaves on SIGTERM.
func nodeMain(task string) error {
	w := &testNode{}
	if err := json.Unmarshal([]byte(task), &w.task); err != nil {
		return err
	}
	opts := []cluster.Option{cluster.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil)))}
	if w.task.TLS {
		opts = append(opts, cluster.WithTransport(tlsnet.Open))
	}
	err := guardNode(w.task, opts) // the guard itself waits there
	if err != nil {
		return err
	}
	start := evidence{Node: w.task.Name, Size: w.task.Config.Size}
	if w.evidence, err = openEvidence(w.task.Evidence, start); err != nil {
		return err
	}
	w.got.evidence, w.sent.evidence = w.evidence, w.evidence
	defer w.flushWaiting()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	rx := receiver.NewMux()
	if w.task.Flood != nil {
		if w.flood, err = newFlood(w.task); err != nil {
			return err
		}
		w.flood.addHandler(rx)
	} else {
		receiver.Handle(rx, w.onNumbered)
	}
	w.task.Config.Receiver = rx
	started, err := steplog.NewContext(ctx, w.task.History)
	if err == nil {
		w.node, err = cluster.Start(started, w.task.Config, opts...)
	}
	if err != nil {
		if w.flood != nil && ctx.Err() != nil {
			w.flood.reportDone() // stopped before it had joined
		}
		w.evidence.appendLine(evidence{Kind: kindEnd, Cause: err.Error()})
		return err
	}
	w.startWork(ctx)
	select {
	case <-w.node.Done():
		err = fmt.Errorf("node stopped: %w", w.node.Err())
		w.evidence.appendLine(evidence{Kind: kindEnd, Cause: err.Error()})
		return err
	case <-ctx.Done():
	}
	bound, cancel := context.WithTimeout(context.Background(), 2*w.task.Config.LeaderTimeout)
	defer cancel()
	err = w.node.Leave(bound)
	if w.flood != nil {
		w.flood.reportDone() // the node is closed either way
	}
	if err != nil {
		w.evidence.appendLine(evidence{Kind: kindEnd, Cause: err.Error()})
		return err
	}
	w.evidence.appendLine(evidence{Kind: kindEnd, Cause: "left"})
	return nil
}

// startWork starts the work of the node: leading, recording, reporting and sending.
func (w *testNode) startWork(ctx context.Context) {
	if w.flood != nil {
		w.flood.startSending(w.node) // before the runner can stop it
	}
	w.leadCluster(ctx)
	go w.watchViews()
	go w.keepWriting()
	if w.flood != nil {
		if w.flood.task.Work {
			w.useRecords(ctx)
		}
		return
	}
	if w.task.History != "" {
		go w.contendForRecords(ctx)
	} else {
		w.useKeys(ctx)
	}
	for address, name := range w.task.Names {
		if name == w.task.Name {
			continue
		}
		to, err := member.ParseAddress(address)
		if err != nil {
			panic(err) // the runner created it
		}
		go w.sendNumbered(ctx, to, name)
	}
}

// useKeys changes records, takes locks, and writes down each operation. After each keyTime all
// nodes turn to another record and another lock, so that histories stay short.
func (w *testNode) useKeys(ctx context.Context) {
	go w.eachKey(ctx, 0, func(ctx context.Context, c *workload.Client, number int64) {
		c.UseRecord(ctx, fmt.Sprint("chaos/record", number))
	})
	go w.eachKey(ctx, 1, func(ctx context.Context, c *workload.Client, number int64) {
		if err := c.UseLock(ctx, fmt.Sprint("lock", number)); err != nil {
			panic(err) // the name is constant
		}
	})
}

func (w *testNode) eachKey(
	ctx context.Context, kind int64, use func(context.Context, *workload.Client, int64),
) {
	for ctx.Err() == nil {
		number := readMonotonic() / int64(keyTime)
		c := &workload.Client{
			ID: 2*readMonotonic() + kind, Store: w.node.Records(), Now: readMonotonic, Tick: holdLine,
			Rand: rand.New(rand.NewPCG(rand.Uint64(), 0)),
			Record: func(o workload.Operation) {
				w.evidence.appendLine(evidence{Kind: kindOp, Op: &o})
			},
		}
		rest := (number+1)*int64(keyTime) - readMonotonic()
		turn, stop := context.WithTimeout(ctx, time.Duration(rest))
		use(turn, c, number)
		stop()
	}
}

// watchViews records each view and reports to the runner.
func (w *testNode) watchViews() {
	in := bufio.NewScanner(os.Stdin)
	go func() {
		for in.Scan() {
			if w.flood != nil {
				w.flood.runLine(in.Text())
			}
		}
		os.Exit(0) // the runner is gone
	}()
	changed := make(chan struct{}, 1)
	go func() {
		for range w.node.Events(context.Background()) {
			w.evidence.appendLine(evidence{Kind: kindView, View: w.readView()})
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	out := json.NewEncoder(os.Stdout)
	tick := time.NewTicker(reportTick)
	defer tick.Stop()
	for {
		s := w.node.Status()
		r := report{
			At: readMonotonic(), Leads: s.LeaseRemaining > 0, Token: s.Token.Version,
			Active: s.View.Members.Count(member.Active), Goroutines: runtime.NumGoroutine(),
		}
		if w.flood != nil {
			r.HeapBytes, r.Idle = heapBytes(), w.flood.isIdle()
		}
		if err := out.Encode(r); err != nil {
			os.Exit(1) // the runner is gone
		}
		select {
		case <-tick.C:
		case <-changed:
		}
	}
}

// heapBytes returns the size of live objects and uncollected garbage.
func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// readView returns the current view.
func (w *testNode) readView() *nodeView {
	status := w.node.Status()
	v := status.View
	s := &nodeView{
		StoreID: v.Self.StoreID.String(),
		Version: v.Version, Revision: v.Revision, Role: v.Role.String(),
		Leader: w.task.Names[v.Leader.String()], Quorate: v.Quorate,
	}
	if id := status.ClusterID; !id.IsZero() {
		s.Cluster = id.String()
	}
	for _, m := range v.Members {
		s.Members = append(s.Members, seat{
			Name: w.task.Names[m.Address.String()], StoreID: m.StoreID.String(),
			Incarnation: m.Incarnation, Status: m.Status.String(), Voter: hasVote(m),
		})
	}
	return s
}

// hasVote reports whether an entry of a view has a vote. A view shows a member whose seat is kept
// as removed, and so a seat without a store, which has none.
func hasVote(m member.Member) bool {
	return m.IsVoter() || m.Status == member.Removed && !m.StoreID.IsZero()
}

// sendNumbered sends numbered events to one member. It does not reuse the number of a failed event,
// so gaps are permitted.
func (w *testNode) sendNumbered(ctx context.Context, to member.Address, name string) {
	for seq := uint64(1); ctx.Err() == nil; seq++ {
		sending, cancel := context.WithTimeout(ctx, sendTimeout)
		e := numbered{From: w.task.Name, Run: w.evidence.run, Seq: seq}
		if seq%largeEvery == 0 {
			e.Rest = make([]byte, largeBytes)
		}
		if w.node.Send(sending, to, e) == nil {
			w.sent.addEvent(name, evidence{Kind: kindSent, To: name, First: seq, Last: seq})
		}
		cancel()
		if seq%burstEvery >= burst {
			time.Sleep(sendTick)
		}
	}
}

func (w *testNode) onNumbered(_ context.Context, from member.Member, e numbered) error {
	if name := w.task.Names[from.Address.String()]; name != e.From {
		w.evidence.appendLine(evidence{
			Kind: kindForged, From: name, Cause: "claims to be from " + e.From,
		})
		return nil
	}
	w.got.addEvent(e.From, evidence{
		Kind: kindEvents, From: e.From, FromRun: e.Run, First: e.Seq, Last: e.Seq,
	})
	return nil
}

// contendForRecords acquires and releases a lock, forever, so that the history of a run has
// records. Sometimes it takes the lock from another node.
func (w *testNode) contendForRecords(ctx context.Context) {
	store := w.node.Records()
	l, err := lock.New(store, contended)
	if err != nil {
		panic(err) // the name is valid
	}
	key, err := lock.Key(contended)
	if err != nil {
		panic(err)
	}
	operator := store.Session(nil)
	for ctx.Err() == nil {
		err := l.Do(ctx, func(ctx context.Context, _ leader.Term) error {
			return waitFor(ctx, holdLock)
		})
		_ = waitFor(ctx, rand.N(pauseLock)) // the loop ends with ctx
		if err == nil && rand.N(takeEvery) == 0 {
			// Another node holds the lock again.
			_, _ = operator.Commit(ctx, record.Op{Kind: record.Drop, Key: key})
		}
	}
}

// keepWriting periodically records the collected lines, forever.
func (w *testNode) keepWriting() {
	for {
		begin := readMonotonic()
		time.Sleep(eventsLine)
		end := readMonotonic()
		if end-begin > int64(w.task.Config.LeaderTimeout/stallPart) {
			w.evidence.appendLine(evidence{Kind: kindStall, Begin: begin, End: end})
		}
		w.flushWaiting()
	}
}

func (w *testNode) flushWaiting() {
	w.got.flushSpans()
	w.sent.flushSpans()
}
