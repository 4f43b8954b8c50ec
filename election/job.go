// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/athena-go/athena/internal/jobrecord"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// JobOptions say how a member opens a job.
type JobOptions struct {
	// Disabled disables this member before it can lead, as Enable does: until it is enabled.
	Disabled bool
	// RetryFor is that of leader.Options.
	RetryFor time.Duration
}

// Job is this member as a candidate for one job: one of many things that need a leader of
// their own, whichever member leads the cluster. A job has at most one leader at any moment,
// and the leaders of different jobs spread over the members.
type Job struct {
	*leader.Candidate
	source *jobSource
}

// OpenJob opens a job by its name, the same on all members. From then on this member leads
// the job whenever no other does, until Close. OpenJob blocks until it has looked at the
// records, and, if Disabled, until that is committed.
//
// The leader of a job owns a record. All members try to set it when there is none, one after
// another, in an order that differs from job to job; a member that sees a leader writes
// nothing. The members behind the last leader try first, so that the job goes round. A new
// leader must look for what the last one left undone: nothing tells it.
//
// Open a job once in a process: a second Job of one name is another candidate, and may lead
// without a function while WhileLeader of the first waits.
func OpenJob(ctx context.Context, s record.Store, job string, o JobOptions) (*Job, error) {
	source, err := newJobSource(s, job)
	if err != nil {
		return nil, err
	}
	if err := source.refresh(ctx); err != nil {
		return nil, fmt.Errorf("election: open job %q: %w", job, err)
	}
	j := &Job{leader.New(source.life, source, leader.Options{RetryFor: o.RetryFor}), source}
	source.running.Go(source.follow)
	if o.Disabled {
		if err := j.Enable(ctx, source.session.Member(), false); err != nil {
			return nil, errors.Join(fmt.Errorf("election: open job %q: %w", job, err), j.Close(ctx))
		}
	}
	source.running.Go(source.contend)
	return j, nil
}

// Enable says whether a member may lead the job, and blocks until that is committed. The
// member is an id as Store.Members lists it: in a cluster its address, not its name. It
// stays so until the next Enable, whether the member runs or not. A leader that is disabled
// loses its record in the same commit, even if it hangs, and its contexts end with
// leader.ErrDisabled before another member leads. A leader that disables itself gives the
// lead up first. Errors: the cause of ctx, with record.ErrNoQuorum or
// record.ErrUnknownOutcome, or leader.ErrClosed.
func (j *Job) Enable(ctx context.Context, member string, on bool) error {
	s := j.source
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.running.Done()
	ctx, stop := jobrecord.Until(ctx, s.life)
	defer stop()
	return enableMember(ctx, s.store, s.session, s.name, member, on, func() {
		if !on && member == s.session.Member() {
			s.endReign(leader.ErrDisabled)
		}
	})
}

// EnableJob does what Job.Enable does, for a program that has not opened the job.
func EnableJob(ctx context.Context, s record.Store, job, member string, on bool) error {
	return enableMember(ctx, s, s.Session(nil), job, member, on, func() {})
}

// enableMember calls prepare before each attempt.
func enableMember(
	ctx context.Context, s record.Store, session record.Session,
	job, member string, on bool, prepare func(),
) error {
	key, err := jobrecord.Disabled(job, member)
	if err != nil {
		return fmt.Errorf("election: %w", err)
	}
	verb := "enable"
	if !on {
		verb = "disable"
	}
	for {
		prepare()
		ops, err := toggleOps(ctx, s, job, key, member, on)
		if err == nil {
			_, err = session.Commit(ctx, ops...)
		}
		if err == nil {
			return nil
		}
		if !jobrecord.MayPass(err) {
			return fmt.Errorf("election: %s %q in job %q: %w", verb, member, job, err)
		}
		if over := jobrecord.Pause(ctx, nil, enableInterval); over != nil {
			return fmt.Errorf("election: %s %q in job %q: %w: %w", verb, member, job, over, err)
		}
	}
}

// toggleOps returns the commit that enables or disables a member, under the condition that
// the records are as they are seen here: that may be older than what this member did last.
func toggleOps(
	ctx context.Context, s record.Store, job, key, id string, on bool,
) ([]record.Op, error) {
	if on {
		return []record.Op{{Kind: record.Drop, Key: key}}, nil
	}
	prefix, err := jobrecord.JobPrefix(job)
	if err != nil {
		return nil, err
	}
	list, err := s.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	records := member.Records(list)
	if r, is := records.Find(key); is {
		return []record.Op{{Kind: record.Held, Key: key, Token: r.Token}}, nil
	}
	lead := prefix + "leader"
	r, taken := records.Find(lead)
	if !taken {
		return []record.Op{
			{Kind: record.Absent, Key: lead}, {Kind: record.Set, Key: key},
		}, nil
	}
	ops := []record.Op{
		{Kind: record.Held, Key: lead, Token: r.Token}, {Kind: record.Set, Key: key},
	}
	if string(r.Value) == id {
		ops = append(ops, record.Op{Kind: record.Drop, Key: lead})
	}
	return ops, nil
}
