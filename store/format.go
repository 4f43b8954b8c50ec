// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/athena-go/athena/member"
)

const (
	magic   = "athena-state"
	version = "2"
	// maxStateBytes bounds the state file. Two states of the largest cluster
	// with the longest names need a seventh of it.
	maxStateBytes = 4 << 20
)

// format returns the content of the state file. It refuses what parse would
// refuse, so that nothing is ever written that cannot be read again.
func format(c Content) ([]byte, error) {
	if err := check(c); err != nil {
		return nil, err
	}
	payload, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, err
	}
	payload = append(payload, '\n')
	content := fmt.Appendf(nil, "%s %s sha256:%s\n", magic, version, digest(payload))
	if content = append(content, payload...); len(content) > maxStateBytes {
		return nil, fmt.Errorf("%d bytes, the limit is %d", len(content), maxStateBytes)
	}
	return content, nil
}

// parse reads what format wrote. An error wraps ErrCorrupt or ErrVersion.
func parse(content []byte) (Content, error) {
	if len(content) > maxStateBytes {
		return Content{}, corrupt("more than %d bytes", maxStateBytes)
	}
	first, payload, ok := bytes.Cut(content, []byte("\n"))
	fields := strings.Split(string(first), " ")
	switch {
	case !ok || len(fields) != 3 || fields[0] != magic:
		return Content{}, corrupt("no header in the first line")
	case fields[1] == "1":
		// It has no Origin. Who took it over would have to trust the flags of the
		// next start, and those may be the mistake that Origin is there to find.
		return Content{}, fmt.Errorf("%w \"1\", of before the first release, which does not say for "+
			"which cluster it was made; start the version of Athena that wrote it, or every node with "+
			"an empty directory: a new cluster, whose tokens begin at 1 again", ErrVersion)
	case fields[1] != version:
		return Content{}, fmt.Errorf("%w %.20q, this program knows %s; start the version of Athena "+
			"that wrote it, or a later one", ErrVersion, fields[1], version)
	case fields[2] != "sha256:"+digest(payload):
		return Content{}, corrupt("the content does not match its checksum")
	}
	var c Content
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return Content{}, corrupt("%v", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return Content{}, corrupt("more than one JSON value")
	}
	if err := check(c); err != nil {
		return Content{}, corrupt("%v", err)
	}
	return c, nil
}

func corrupt(why string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(why, args...))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// check returns every fault of c, each naming the field.
func check(c Content) error {
	var faults []error
	fault := func(where string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", where, err))
		}
	}
	if err := c.Origin.check(); err != nil {
		faults = append(faults, err)
	}
	if c.LeaseTimeout < 0 {
		fault("LeaseTimeout", fmt.Errorf("%v is negative", c.LeaseTimeout))
	}
	if c.StoreID.IsZero() {
		fault("StoreID", errors.New("is zero"))
	}
	fault("Promised", checkAddress(c.Promised.Ballot.Proposer))
	fault("Accepted", checkAddress(c.Accepted.ID.Ballot.Proposer))
	fault("Accepted.State", checkState(c.Accepted.State))
	fault("Held", checkState(c.Held))
	return errors.Join(faults...)
}

func checkState(s member.State) error {
	if err := checkAddress(s.Leader); err != nil {
		return err
	}
	if len(s.Roster) > member.MaxMembers {
		return fmt.Errorf("a roster of %d members, the limit is %d", len(s.Roster), member.MaxMembers)
	}
	for _, m := range s.Roster {
		if m.Address.IsZero() {
			return errors.New("a member without an address")
		}
		if err := checkAddress(m.Address); err != nil {
			return err
		}
		if len(m.Name) > member.MaxNameBytes || !member.IsPrintable(m.Name) {
			return fmt.Errorf("%s: a name that is not printable or longer than %d bytes",
				m.Address, member.MaxNameBytes)
		}
		if m.Status < member.Joining || m.Status > member.Leaving {
			return fmt.Errorf("%s: no status of a roster: %s", m.Address, m.Status)
		}
	}
	if !s.Roster.IsSorted() {
		return errors.New("a roster that is not sorted by address")
	}
	return nil
}

// checkAddress wants nobody, or an address that survives being written as text.
func checkAddress(a member.Address) error {
	if a.IsZero() || a.IsValid() {
		return nil
	}
	return fmt.Errorf("%w: host %q, port %d", member.ErrAddress, a.Host, a.Port)
}
