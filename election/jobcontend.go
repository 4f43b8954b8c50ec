// SPDX-License-Identifier: Apache-2.0

package election

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/jobrecord"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

const (
	// turnInterval is how much longer each next member leaves a job to those before it: a
	// commit takes less, so the first member succeeds and the others see its record.
	turnInterval = 100 * time.Millisecond
	// startInterval takes its place until a member has seen a leader of the job: when a
	// thousand jobs start at once, a commit takes longer.
	startInterval = 500 * time.Millisecond
)

// contend takes the lead whenever no member has it.
func (j *jobSource) contend() {
	var resigned member.Token // of the leadership that was given up last
	var q jobQueue
	var former string // the last member that was seen to lead
	turn := startInterval
	for j.life.Err() == nil {
		j.mu.Lock()
		records, changed, notBefore := j.records, j.changed, j.notBefore
		j.mu.Unlock()
		r, taken := records.Find(j.slot.Key)
		if taken {
			turn, former = turnInterval, string(r.Value)
		}
		again := jobrecord.LookInterval
		switch {
		case taken && r.Token == resigned && j.session.Owns(r):
			j.setRefused(j.slot.Drop(j.life, resigned))
		case taken && j.session.Owns(r) && !r.Revoked:
			led := j.leadByRecord(r.Token)
			if led == nil { // the record was set without learning of it, or is not trusted
				led = j.acquireRecord(record.Op{Kind: record.Held, Key: r.Key, Token: r.Token})
			}
			resigned, q = j.afterReign(led, resigned, q)
		case taken, !j.isEnabled(records, j.session.Member()):
			q = jobQueue{}
		default:
			line := rotateLine(j.line(records), former)
			again = max(q.wait(line, j.session.Member(), turn), time.Until(notBefore))
			if again <= 0 {
				led := j.acquireRecord(record.Op{Kind: record.Absent, Key: j.slot.Key})
				resigned, q = j.afterReign(led, resigned, q)
				again = jobrecord.LookInterval
			}
		}
		_ = jobrecord.Pause(j.life, changed, again)
	}
}

// afterReign returns the state of contend after this member has led, or, if led is nil, could
// not.
func (j *jobSource) afterReign(
	led *reignOfJob, resigned member.Token, q jobQueue,
) (member.Token, jobQueue) {
	switch {
	case led == nil:
		return resigned, jobQueue{since: time.Now(), last: q.last}
	case gaveUp(led.lease):
		return led.lease.Term().Token(), jobQueue{last: true}
	default:
		return resigned, jobQueue{}
	}
}

// gaveUp reports whether this member gave up the leadership of a lease that has ended.
func gaveUp(l *leader.Lease) bool {
	err := l.Term().Err()
	return errors.Is(err, leader.ErrResigned) || errors.Is(err, leader.ErrDisabled)
}

// jobQueue is the place of a member among those that want to lead.
type jobQueue struct {
	since time.Time // when the record was first seen absent, or tried for; zero: not yet
	last  bool      // this member has just led and lets all others try first
}

// wait returns how long others come first. Each member tries at a time of its own, so those
// that come later find a leader if one of those before them could lead.
func (q *jobQueue) wait(line []string, self string, turn time.Duration) time.Duration {
	if q.since.IsZero() {
		q.since = time.Now()
	}
	rank := slices.Index(line, self)
	if rank < 0 || q.last {
		rank = len(line)
	}
	return time.Until(q.since.Add(time.Duration(rank) * turn))
}

// line returns the members that may lead, in the order in which they try: one that differs
// from job to job, and is the same on every member that sees the same.
func (j *jobSource) line(records member.Records) []string {
	may := slices.DeleteFunc(slices.Clone(j.store.Members()), func(id string) bool {
		return !j.isEnabled(records, id)
	})
	slices.SortFunc(may, func(a, b string) int {
		x, y := sha256.Sum256([]byte(j.prefix+a)), sha256.Sum256([]byte(j.prefix+b))
		return bytes.Compare(x[:], y[:])
	})
	return may
}

// rotateLine lets those behind the former leader try first, and it last. Otherwise two
// members whose work fails would hand the job to each other, and a third would never lead.
func rotateLine(line []string, former string) []string {
	i := slices.Index(line, former) + 1
	return slices.Concat(line[i:], line[:i])
}

// acquireRecord sets the record under a condition and leads, if this member is enabled in that
// very commit; nil if it could not.
func (j *jobSource) acquireRecord(condition record.Op) *reignOfJob {
	ctx, stop := context.WithTimeout(j.life, jobrecord.LookInterval)
	defer stop()
	enabled := record.Op{Kind: record.Absent, Key: j.prefix + "disabled/" + j.session.Member()}
	token, err := j.slot.Set(ctx, condition, enabled)
	j.setRefused(err)
	if err != nil {
		return nil
	}
	return j.leadByRecord(token)
}

// leadByRecord leads until the lease ends and no function runs under it, and drops the record if
// this member gave it up; nil if it cannot lead by that record.
func (j *jobSource) leadByRecord(token member.Token) *reignOfJob {
	lease, err := j.session.Hold(j.life, j.slot.Key, token)
	if err != nil {
		return nil
	}
	r := &reignOfJob{lease: lease, over: make(chan struct{})}
	j.setReign(r)
	defer func() {
		j.setReign(nil)
		close(r.over)
	}()
	select {
	case <-lease.Term().Done():
	case <-j.life.Done():
		lease.End(context.Cause(j.life))
	}
	_ = lease.Wait(context.Background())      // functions return when their contexts have ended
	if gaveUp(lease) && j.life.Err() == nil { // Close drops what a closed job has
		r.err = j.slot.Drop(j.life, token)
		j.setRefused(r.err)
	}
	return r
}
