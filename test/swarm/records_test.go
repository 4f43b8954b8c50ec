// SPDX-License-Identifier: Apache-2.0

//go:build unix

package swarm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// keyState has the results of the commits that replaced the record of a key. world.mu guards it.
type keyState struct {
	newest  member.Token          // greatest token that a commit returned
	changed map[member.Token]bool // tokens of records that a commit has replaced
	refused map[uint64]bool       // values of commits that have changed nothing
}

// keyLocked returns the state of a key. world.mu must be held.
func (w *world) keyLocked(key string) *keyState {
	k := w.keys[key]
	if k == nil {
		k = &keyState{changed: map[member.Token]bool{}, refused: map[uint64]bool{}}
		w.keys[key] = k
	}
	return k
}

const countPrefix = "count/"

// runCount replaces records under the condition that they have not changed.
func runCount(p *proc, r *rand.Rand, _ int) {
	session := p.n.Records().Session(nil)
	for n := uint64(1); !p.hasEnded(); n++ {
		key := countPrefix + pickOne(r, "a", "b", "c")
		value := uint64(p.run)<<32 | n
		limit := drawTime(r, 0, 3*time.Second)
		_ = p.timeCall("Commit", limit, func(ctx context.Context) error {
			return p.replaceRecord(ctx, session, key, value)
		})
		p.takeRest(r, 100*time.Millisecond)
		if r.IntN(30) == 0 {
			session = p.n.Records().Session(nil)
		}
	}
}

// replaceRecord replaces the record under key. value must be unique.
func (p *proc) replaceRecord(
	ctx context.Context, s record.Session, key string, value uint64,
) error {
	old, err := record.Get(ctx, p.n.Records(), key)
	condition := record.Op{Kind: record.Held, Key: key, Token: old.Token}
	switch {
	case errors.Is(err, record.ErrAbsent):
		condition = record.Op{Kind: record.Absent, Key: key}
	case err != nil:
		return err
	}
	p.mu.Lock()
	before := p.keyLocked(key).newest
	p.mu.Unlock()
	token, err := s.Commit(ctx, condition,
		record.Op{Kind: record.Set, Key: key, Value: binary.BigEndian.AppendUint64(nil, value)})
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keyLocked(key)
	switch {
	case p.dead:
	case errors.Is(err, record.ErrUnknownOutcome):
	case err != nil:
		k.refused[value] = true
	case !before.Less(token) || !old.Token.Less(token):
		p.failLocked("commit", "%s: a commit of run %d that replaced %v returned %v, but %v was "+
			"returned before it began", key, p.run, old.Token, token, before)
	case k.changed[old.Token]:
		p.failLocked("commit", "%s: two commits replaced the record with %v", key, old.Token)
	default:
		k.changed[old.Token] = true
		if k.newest.Less(token) {
			k.newest = token
		}
	}
	return err
}

// runBulk commits so many values that the messages of the protocol become large.
func runBulk(p *proc, r *rand.Rand, number int) {
	session := p.n.Records().Session(nil)
	for !p.hasEnded() {
		p.takeRest(r, 2*time.Second)
		_ = p.timeCall("bulk Commit", drawTime(r, 0, 5*time.Second), func(ctx context.Context) error {
			return p.commitBulk(ctx, session, fmt.Sprint("bulk/", number%3, "/"))
		})
	}
}

// commitBulk commits 20 KiB, or less if payloads are small.
func (p *proc) commitBulk(ctx context.Context, s record.Session, prefix string) error {
	var ops []record.Op
	for i := range 5 {
		value := make([]byte, p.plan.payloadSize(member.MaxValueBytes))
		ops = append(ops, record.Op{Kind: record.Set, Key: fmt.Sprint(prefix, i), Value: value})
	}
	_, err := s.Commit(ctx, ops...)
	return err
}

// runWatch follows the records that runCount changes. What a node shows never gets older, and at
// the end the watch must have shown the newest records.
func runWatch(p *proc, r *rand.Rand, _ int) {
	var last string
	seen := map[string]member.Token{}
	store := p.n.Records()
	p.atEnd(func() string {
		if now := p.listRecords(); now != last {
			return fmt.Sprintf("the watch ended with\n%s\nthe records are\n%s", last, now)
		}
		return ""
	})
	for p.n.Err() == nil {
		ctx, cancel := context.WithCancel(context.Background())
		for list := range record.Watch(ctx, store, countPrefix) {
			p.mu.Lock()
			p.checkRecordsLocked(list, seen)
			last = describeRecords(list)
			p.mu.Unlock()
			if r.IntN(10) == 0 {
				passTime(drawTime(r, 0, 300*time.Millisecond))
			}
			if p.life.Err() == nil && r.IntN(100) == 0 {
				break
			}
		}
		cancel()
	}
}

// checkRecordsLocked checks what a node shows. p.mu must be held.
func (p *proc) checkRecordsLocked(list []member.Record, seen map[string]member.Token) {
	for _, r := range list {
		if r.Token.Less(seen[r.Key]) {
			p.failLocked("stale", "run %d of node %d showed %s with %v and then with %v",
				p.run, p.node, r.Key, seen[r.Key], r.Token)
		}
		seen[r.Key] = r.Token
		if value := binary.BigEndian.Uint64(r.Value); p.keyLocked(r.Key).refused[value] {
			p.failLocked("refused", "%s has the value %x of a commit that failed", r.Key, value)
		}
	}
}

// listRecords describes the records that a node shows.
func (p *proc) listRecords() string {
	list, err := p.n.Records().List(context.Background(), countPrefix)
	if err != nil {
		return err.Error()
	}
	return describeRecords(list)
}

func describeRecords(list []member.Record) string {
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "%s %v %x\n", r.Key, r.Token, r.Value)
	}
	return b.String()
}
