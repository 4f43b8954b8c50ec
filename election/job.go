// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

// JobOptions configures how a member opens a job.
type JobOptions struct {
	// Disabled opens the job while this member may not lead it; see Job.Enable.
	Disabled bool
	// RetryFor is leader.Options.RetryFor.
	RetryFor time.Duration
}

// Job represents this member as a candidate for one of many jobs that each need a leader,
// independently of the leader of the cluster. A job has at most one leader at any time, and the
// leaders of different jobs are spread over the members. Its methods include those of
// leader.Candidate, such as WhileLeader and Resign.
type Job struct {
	*leader.Candidate
	source *jobSource
}

// OpenJob opens a job by its name, which must be the same on all members. From then on this member
// leads the job whenever no other does, until Close. OpenJob blocks until it has read the records
// and, with Disabled, until the member is disabled.
//
// The leader of a job owns a record. If there is no such record, the members try to set it one
// after another. The order differs between jobs, and starts after the previous leader, so that the
// job rotates among the members. Workers (package observer) try together, after the members. A
// member that sees a leader writes nothing. A new leader must find out by itself what the previous
// leader left unfinished.
//
// Open a job only once in a process. A second Job of the same name is another candidate. It may
// lead without running a function, while WhileLeader of the first Job waits.
func OpenJob(ctx context.Context, s record.Store, job string, o JobOptions) (*Job, error) {
	source, err := newJobSource(s, job)
	if err != nil {
		return nil, err
	}
	if err := source.readRecords(ctx); err != nil {
		return nil, fmt.Errorf("election: open job %q: %w", job, err)
	}
	j := &Job{leader.New(source.life, source, leader.Options{RetryFor: o.RetryFor}), source}
	source.running.Go(source.watchRecords)
	if o.Disabled {
		if err := j.Enable(ctx, source.session.Member(), false); err != nil {
			return nil, errors.Join(fmt.Errorf("election: open job %q: %w", job, err), j.Close(ctx))
		}
	}
	source.running.Go(source.runElection)
	return j, nil
}

// Enable sets whether a member may lead the job, and blocks until the setting is committed. The
// member is an id as listed by Store.Members: in a cluster its address, not its name. The setting
// lasts until the next Enable, whether or not the member is running.
//
// A leader that is disabled loses its record in the same commit, even if it hangs. Its contexts end
// with leader.ErrDisabled before another member leads. A leader that disables itself ends its term
// first. If ctx is done first, the error wraps the cause of ctx, and also record.ErrNoQuorum or
// record.ErrUnknownOutcome if that is the reason. If the Job is closed, the error is
// leader.ErrClosed.
func (j *Job) Enable(ctx context.Context, member string, on bool) error {
	s := j.source
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.running.Done()
	ctx, stop := holding.WithStop(ctx, s.life)
	defer stop()
	self := s.session.Member()
	prepare := func() {
		if !on && member == self {
			s.endTerm(leader.ErrDisabled)
		}
	}
	return memberSetting(s.name, member, on).commitSetting(ctx, s.store, s.session, prepare)
}

// EnableJob is like Job.Enable, for programs that have not opened the job.
func EnableJob(ctx context.Context, s record.Store, job, member string, on bool) error {
	return memberSetting(job, member, on).commitSetting(ctx, s, s.Session(nil), func() {})
}

// EnableHost is like EnableJob for all members on the host, including members that join later. A
// member may lead unless the member or its host is disabled.
func EnableHost(ctx context.Context, s record.Store, job, host string, on bool) error {
	key, err := holding.HostKey(job, host)
	includes := func(id string) bool { return holding.IsOnHost(id, host) }
	set := setting{job, host, on, key, err, includes}
	return set.commitSetting(ctx, s, s.Session(nil), func() {})
}

// setting determines whether a member, or the members of a host, may lead a job.
type setting struct {
	job, name string
	on        bool
	key       string // key of the record that disables them
	keyErr    error  // not nil if the name is invalid
	includes  func(id string) bool
}

func memberSetting(job, member string, on bool) setting {
	key, err := holding.DisabledKey(job, member)
	return setting{job, member, on, key, err, func(id string) bool { return id == member }}
}

// commitSetting blocks until the setting is committed. It calls prepare before each attempt.
func (e setting) commitSetting(
	ctx context.Context, s record.Store, session record.Session, prepare func(),
) error {
	if e.keyErr != nil {
		return fmt.Errorf("election: %w", e.keyErr)
	}
	verb := "enable"
	if !e.on {
		verb = "disable"
	}
	for {
		prepare()
		ops, err := e.listOps(ctx, s)
		if err == nil {
			_, err = session.Commit(ctx, ops...)
		}
		if err == nil {
			return nil
		}
		if !holding.IsTransient(err) {
			return fmt.Errorf("election: %s %q in job %q: %w", verb, e.name, e.job, err)
		}
		if over := holding.Pause(ctx, nil, enableInterval); over != nil {
			return fmt.Errorf("election: %s %q in job %q: %w: %w", verb, e.name, e.job, over, err)
		}
	}
}

// listOps returns the operations of the commit. The commit succeeds only if the records have not
// changed since listOps read them. These records may be older than the last commit of this member.
func (e setting) listOps(ctx context.Context, s record.Store) ([]record.Op, error) {
	if e.on {
		return []record.Op{{Kind: record.Drop, Key: e.key}}, nil
	}
	prefix, err := holding.JobPrefix(e.job)
	if err != nil {
		return nil, err
	}
	records, err := s.List(ctx, prefix)
	if err != nil {
		return nil, err
	}

	if r, is := holding.Find(records, e.key); is {
		return []record.Op{{Kind: record.Held, Key: e.key, Token: r.Token}}, nil
	}
	lead := prefix + "leader"
	r, taken := holding.Find(records, lead)
	if !taken {
		return []record.Op{
			{Kind: record.Absent, Key: lead}, {Kind: record.Set, Key: e.key},
		}, nil
	}
	ops := []record.Op{
		{Kind: record.Held, Key: lead, Token: r.Token}, {Kind: record.Set, Key: e.key},
	}
	if e.includes(string(r.Value)) {
		ops = append(ops, record.Op{Kind: record.Drop, Key: lead})
	}
	return ops, nil
}
