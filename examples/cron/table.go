// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"sync"

	"github.com/athena-go/athena/member"
)

// table stands for the database that the shards work on. As a database should, it refuses any token
// smaller than one that it has seen. It counts how often two members run the same shard at the same
// time, which must never happen.
type table struct {
	mu       sync.Mutex
	rows     [shards]row
	overlaps int
}

type row struct {
	runner string // "" for none
	token  member.Token
	count  int
}

func (t *table) beginShard(shard int, runner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.rows[shard]
	if r.runner != "" {
		t.overlaps++
	}
	r.runner = runner
}

func (t *table) endShard(shard int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows[shard].runner = ""
}

// add counts one run of a shard.
func (t *table) add(shard int, token member.Token) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.rows[shard]
	if token.Less(r.token) {
		return fmt.Errorf("shard %d: token %v is stale: %v has already been used", shard, token, r.token)
	}
	r.token = token
	r.count++
	return nil
}

// runBy reports whether every shard is running, on exactly the given number of members, and no
// shard runs on the lost member.
func (t *table) runBy(members int, gone string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	runners := map[string]bool{}
	for _, r := range t.rows {
		runners[r.runner] = true
	}
	return len(runners) == members && !runners[""] && !runners[gone]
}

// String returns which member runs each shard, and how often the shard has run.
func (t *table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for i, r := range t.rows {
		fmt.Fprintf(&b, "          shard %d at %s, ran %d times\n", i, r.runner, r.count)
	}
	fmt.Fprintf(&b, "          overlaps: %d", t.overlaps)
	return b.String()
}
