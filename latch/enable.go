// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"
	"fmt"

	"github.com/athena-go/athena/record"
)

// Enable says whether a member may lead the job, and blocks until that is committed. It
// stays so until somebody says otherwise, whether the member runs or not. One that leads
// and is disabled loses the record in that very commit, also when it hangs; its context
// ends with ErrDisabled before another member leads. One that disables itself gives the
// lead up first. Errors: the cause of ctx with
// record.ErrNoQuorum or record.ErrUnknownOutcome, ErrClosed.
func (j *Job) Enable(ctx context.Context, member string, on bool) error {
	key, err := j.keys.disabled(member)
	if err != nil {
		return err
	}
	if err := j.begin(); err != nil {
		return err
	}
	defer j.running.Done()
	ctx, stop := until(ctx, j.life)
	defer stop()
	verb := "enable"
	if !on {
		verb = "disable"
	}
	for {
		s, changed := j.look()
		if !on && member == j.session.Member() && s.leads != nil {
			j.stop(s.leads, ErrDisabled)
		}
		_, err := j.session.Commit(ctx, j.toggle(s, key, member, on)...)
		if err == nil {
			return nil
		}
		if !passes(err) {
			return fmt.Errorf("latch: %s %q in %q: %w", verb, member, j.name, err)
		}
		if over := j.wait(ctx, changed); over != nil {
			return fmt.Errorf("latch: %s %q in %q: %w: %w", verb, member, j.name, over, err)
		}
	}
}

// toggle is the commit that enables or disables a member, under the condition that what
// s shows is so: it may be older than what this very job did last.
func (j *Job) toggle(s sight, key, id string, on bool) []record.Op {
	if on {
		return []record.Op{{Kind: record.Drop, Key: key}}
	}
	if r, is := find(s.records, key); is {
		return []record.Op{{Kind: record.Held, Key: key, Token: r.Token}}
	}
	r, taken := find(s.records, j.keys.leader())
	if !taken {
		return []record.Op{{Kind: record.Absent, Key: j.keys.leader()}, {Kind: record.Set, Key: key}}
	}
	ops := []record.Op{{Kind: record.Held, Key: r.Key, Token: r.Token}, {Kind: record.Set, Key: key}}
	if string(r.Value) == id {
		ops = append(ops, record.Op{Kind: record.Drop, Key: r.Key})
	}
	return ops
}
