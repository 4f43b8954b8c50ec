// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// keys are those of the records of a job. A job's name has no slash, so no job's keys
// begin as another's.
type keys struct{ prefix string }

func keysOf(job string) (keys, error) {
	k := keys{KeyPrefix + job + "/"}
	if job == "" || strings.Contains(job, "/") || !member.IsKey(k.leader()) {
		return keys{}, fmt.Errorf("latch: the job %q: want a name that is printable, "+
			"without /, and of at most %d bytes", job, member.MaxKeyBytes-len("latch//leader"))
	}
	return k, nil
}

func (k keys) leader() string { return k.prefix + "leader" }

// latch and disabled are the keys of what has a name that somebody gave; an error where
// no record can have it.
func (k keys) latch(name string) (string, error)  { return k.named("latch/", name) }
func (k keys) disabled(id string) (string, error) { return k.named("disabled/", id) }

func (k keys) named(kind, name string) (string, error) {
	key := k.prefix + kind + name
	if name == "" || !member.IsKey(key) {
		return "", fmt.Errorf("latch: the name %q: want one that is printable, and of at most "+
			"%d bytes", name, member.MaxKeyBytes-len(k.prefix)-len(kind))
	}
	return key, nil
}

// find is the record under key; false where there is none.
func find(records []member.Record, key string) (member.Record, bool) {
	return member.Records(records).Find(key)
}

// leaderOf says who leads a job: nobody where the record is absent or revoked.
func (k keys) leaderOf(records []member.Record) (id string, token member.Token, ok bool) {
	r, ok := find(records, k.leader())
	if !ok || r.Revoked {
		return "", member.Token{}, false
	}
	return string(r.Value), r.Token, true
}

// isEnabled reports whether a member may lead. Ids are matched whole.
func (k keys) isEnabled(records []member.Record, id string) bool {
	_, off := find(records, k.prefix+"disabled/"+id)
	return !off
}

// whyLost returns ErrDisabled if this member was disabled in the commit by which it lost the
// lead, and nil if the reason is another one.
func (j *Job) whyLost(key string, now []member.Record) error {
	if key == j.keys.leader() && !j.keys.isEnabled(now, j.session.Member()) {
		return ErrDisabled
	}
	return nil
}

// line lists the members that may lead a job in the order in which they try to, another
// one for each job, the same on every member that sees the same.
func (k keys) line(records []member.Record, members []string) []string {
	may := slices.DeleteFunc(slices.Clone(members), func(id string) bool {
		return !k.isEnabled(records, id)
	})
	slices.SortFunc(may, func(a, b string) int {
		x, y := sha256.Sum256([]byte(k.prefix+a)), sha256.Sum256([]byte(k.prefix+b))
		return bytes.Compare(x[:], y[:])
	})
	return may
}

// passes reports whether what a commit was refused by may be over soon. A member that was
// cut off is active again when its leader has heard it; one that leaves is closed soon.
func passes(err error) bool {
	return errors.Is(err, record.ErrConflict) || errors.Is(err, record.ErrUnknownOutcome) ||
		errors.Is(err, record.ErrBusy) || errors.Is(err, record.ErrNotActive)
}
