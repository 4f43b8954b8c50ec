// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
)

// The decisions of the register.
const (
	accepted     = "accepted"
	refusedLower = "lower"  // a higher token has been used
	refusedOther = "shared" // another writer uses the token
	refusedLate  = "late"   // a later write of this writer was accepted
)

// registerTimeout bounds one write.
const registerTimeout = time.Second

// registerTask is the task of the register.
type registerTask struct {
	Evidence string // path of its evidence
	Socket   string
}

// register has resources protected by fencing tokens: each accepts writes only from the holder of
// the highest token.
type register struct {
	evidence *evidenceFile

	mu     sync.Mutex
	states map[string]registerState // by key
}

// registerState is the state of a resource.
type registerState struct {
	top  evidence         // the newest accepted write
	last map[owner]uint64 // Seq of the newest accepted write, by writer
}

// registerMain serves writes until standard input ends. Its socket is a path in the file system,
// which all network namespaces share and no network fault affects.
func registerMain(task string) error {
	var t registerTask
	if err := json.Unmarshal([]byte(task), &t); err != nil {
		return err
	}
	b, err := openEvidence(t.Evidence, evidence{Node: "register"})
	if err != nil {
		return err
	}
	l, err := net.Listen("unix", t.Socket)
	if err != nil {
		return err
	}
	if _, err := os.Stdout.WriteString("ready\n"); err != nil {
		return err
	}
	r := &register{evidence: b, states: map[string]registerState{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.serveConn(c)
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
	}
	return nil
}

func (r *register) serveConn(c net.Conn) {
	defer c.Close()
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for {
		var w evidence
		if in.Decode(&w) != nil || out.Encode(r.decideWrite(w)) != nil {
			return
		}
	}
}

// decideWrite accepts or refuses a write. It records the decision before it returns it.
func (r *register) decideWrite(w evidence) evidence {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := r.states[w.Key]
	w.Verdict = state.judgeWrite(w)
	if w.Verdict == accepted {
		state.acceptWrite(w)
		r.states[w.Key] = state
	}
	r.evidence.appendLine(w)
	return w
}

// judgeWrite compares a write with the highest token and its writer. A write may be late because
// its writer has abandoned it and used another connection.
func (l *registerState) judgeWrite(w evidence) string {
	switch {
	case w.Token < l.top.Token:
		return refusedLower
	case w.Token == l.top.Token && writerOf(w) != writerOf(l.top):
		return refusedOther
	case w.Seq <= l.last[writerOf(w)]:
		return refusedLate
	default:
		return accepted
	}
}

func (l *registerState) acceptWrite(w evidence) {
	if l.last == nil {
		l.last = map[owner]uint64{}
	}
	l.top, l.last[writerOf(w)] = w, w.Seq
}

// writerOf returns the writer of a write.
func writerOf(w evidence) owner { return owner{w.From, w.FromRun} }

// registerClient writes over one connection, which it dials when needed.
type registerClient struct {
	conn net.Conn
	in   *json.Decoder
}

// sendWrite sends a write to the register. It gives up after registerTimeout, since the register
// records what it accepted.
func (c *registerClient) sendWrite(socket string, w evidence) {
	if c.conn == nil {
		conn, err := net.DialTimeout("unix", socket, registerTimeout)
		if err != nil {
			return
		}
		c.conn, c.in = conn, json.NewDecoder(conn)
	}
	err := c.conn.SetDeadline(time.Now().Add(registerTimeout))
	if err == nil {
		err = json.NewEncoder(c.conn).Encode(w)
	}
	if err == nil {
		err = c.in.Decode(&w)
	}
	if err != nil {
		c.close()
	}
}

func (c *registerClient) close() {
	if c.conn != nil {
		_ = c.conn.Close() // every write was answered or abandoned
		c.conn = nil
	}
}

const (
	// writeTick is the interval of a leader's writes to the register.
	writeTick = 10 * time.Millisecond
	// recordTick is the interval at which the holder of a record checks its authority and writes.
	recordTick = 20 * time.Millisecond
	// heldLock is how long a node holds the lock of rolling.
	heldLock = 300 * time.Millisecond
)

// The nodes of rolling share a job, a lock and shards. The keys name them in the evidence.
const (
	rollingWork   = "rolling"
	rollingShards = 6
	jobKey        = "job"
	lockKey       = "lock"
)

// recordKeys are the keys of the terms that the nodes of rolling hold besides the leader's.
func recordKeys() []string {
	keys := []string{jobKey, lockKey}
	for i := range rollingShards {
		keys = append(keys, shardKey(i))
	}
	return keys
}

func shardKey(shard int) string { return fmt.Sprintf("shard %d", shard) }

// termUser acts under the terms of one key, one term at a time: it records its authority and writes
// to the register.
type termUser struct {
	node        *testNode
	key         string        // empty for the leader of the cluster
	check, tick time.Duration // between two checks of authority, and between two writes
	seq         uint64        // number of the latest write
}

// leadCluster acts as leader whenever the node leads. The goroutine ends with the process.
func (w *testNode) leadCluster(ctx context.Context) {
	u := &termUser{node: w, check: authorityTick, tick: writeTick}
	go func() {
		_ = w.node.WhileLeader(ctx, func(_ context.Context, term leader.Term) error {
			// The node has authority until it has handed over, so ctx does not end this.
			return u.useTerm(context.Background(), term)
		})
	}()
}

// useRecords leads a job, contends for a lock and runs shards until ctx is done.
func (w *testNode) useRecords(ctx context.Context) {
	store := w.node.Records()
	user := func(key string) *termUser {
		return &termUser{node: w, key: key, check: recordTick, tick: recordTick}
	}
	job, err := election.OpenJob(ctx, store, rollingWork, election.JobOptions{})
	if err != nil {
		return // the node is stopping
	}
	go func() { _ = job.WhileLeader(ctx, user(jobKey).useTerm) }()
	l, err := lock.New(store, rollingWork)
	if err != nil {
		panic(err) // the name is constant
	}
	holder := user(lockKey)
	go func() {
		for ctx.Err() == nil {
			_ = l.Do(ctx, func(ctx context.Context, term leader.Term) error {
				held, stop := context.WithTimeout(ctx, heldLock)
				defer stop()
				return holder.useTerm(held, term)
			})
		}
	}()
	shards, err := election.NewShards(store, rollingWork+"-shards", rollingShards)
	if err != nil {
		panic(err) // the name is constant
	}
	var owners []*termUser
	for i := range rollingShards {
		owners = append(owners, user(shardKey(i)))
	}
	go func() {
		_ = shards.Run(ctx, func(ctx context.Context, shard int, term leader.Term) error {
			return owners[shard].useTerm(ctx, term)
		})
	}()
}

// tokenOf returns the token of a term as one number.
func (u *termUser) tokenOf(term leader.Term) uint64 {
	if u.key == "" {
		return term.Token().Version
	}
	n, err := term.Token().Int64()
	if err != nil {
		panic(err) // no run lasts so long
	}
	return uint64(n)
}

// useTerm records authority and writes to the register until the term or ctx ends.
func (u *termUser) useTerm(ctx context.Context, term leader.Term) error {
	var writes sync.WaitGroup
	line := evidence{Kind: kindHold, Key: u.key, Token: u.tokenOf(term)}
	record := func(begin, end int64) {
		line.Begin, line.End = begin, end
		u.node.evidence.appendLine(line)
	}
	first := readMonotonic()
	if !term.Valid() {
		return nil
	}
	begin := readMonotonic()
	record(begin, first)
	writes.Go(func() { u.writeRegister(ctx, term) })
	last, written := first, begin
	for ctx.Err() == nil {
		now := readMonotonic()
		if !term.Valid() {
			break
		}
		last = now
		if last-written > int64(holdLine) {
			record(written, last)
			written = last
		}
		time.Sleep(u.check)
	}
	if last > written {
		record(written, last)
	}
	writes.Wait()
	return nil
}

// writeRegister writes to the register while the term is valid. It checks this before each write.
func (u *termUser) writeRegister(ctx context.Context, term leader.Term) {
	var c registerClient
	defer c.close()
	for ctx.Err() == nil && term.Valid() {
		u.seq++
		c.sendWrite(u.node.task.Register, evidence{
			Kind: kindWrite, Key: u.key, Token: u.tokenOf(term), From: u.node.task.Name,
			FromRun: u.node.evidence.run, Seq: u.seq,
		})
		time.Sleep(u.tick)
	}
}
