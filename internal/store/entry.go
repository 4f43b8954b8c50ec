// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/athena-go/athena/member"
)

// entry is a Content as written to the file. It is complete, but instead of the tables of records
// it contains their changes.
type entry struct {
	Content
	// HeldRecords contains the changes of the held table since the previous entry. AcceptedRecords
	// contains the changes from the held table to the accepted table of this entry. Nil means that the
	// accepted table is empty.
	HeldRecords, AcceptedRecords *changes `json:",omitempty"`
}

// changes are the differences between two tables.
type changes struct {
	Set     savedRecords `json:",omitempty"`
	Dropped []string     `json:",omitempty"` // keys
}

// savedRecords is a table in the format of the file, in which a token is two numbers.
type savedRecords []member.Record

// savedRecord has the fields of member.Record in their order on disk.
type savedRecord struct {
	Key     string
	Value   []byte
	Owner   member.Identity
	Session uint64
	Token   member.Number
	Revoked bool
}

// MarshalJSON implements json.Marshaler.
func (s savedRecords) MarshalJSON() ([]byte, error) {
	out := make([]savedRecord, len(s))
	for i, r := range s {
		out[i] = savedRecord{r.Key, r.Value, r.Owner, r.Session, member.Number(r.Token), r.Revoked}
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *savedRecords) UnmarshalJSON(b []byte) error {
	var in []savedRecord
	if err := decodeStrict(b, &in); err != nil {
		return err
	}
	*s = make(savedRecords, len(in))
	for i, r := range in {
		(*s)[i] = member.Record{
			Key: r.Key, Value: r.Value, Owner: r.Owner, Session: r.Session,
			Token: member.Token(r.Token), Revoked: r.Revoked,
		}
	}
	return nil
}

// encodeEntry returns the payload of the entry for c, given the content of the previous entry.
func encodeEntry(before, c Content) ([]byte, error) {
	e := entry{
		Content:         c,
		HeldRecords:     changesSince(before.Held.Records, c.Held.Records),
		AcceptedRecords: changesSince(c.Held.Records, c.Accepted.State.Records),
	}
	if err := checkContent(c, e.HeldRecords.setRecords(), e.AcceptedRecords.setRecords()); err != nil {
		return nil, err
	}
	if before.StoreID != c.StoreID || before.Key != c.Key {
		if err := c.checkKey(); err != nil {
			return nil, err
		}
	}
	e.Held.Records, e.Accepted.State.Records = member.Records{}, member.Records{}
	return json.Marshal(e)
}

// nextContent returns the Content of the next entry. c is the content of the previous entry.
func (c Content) nextContent(payload []byte) (Content, error) {
	var e entry
	if err := decodeStrict(payload, &e); err != nil {
		return Content{}, err
	}
	if e.Held.Records.Len() > 0 || e.Accepted.State.Records.Len() > 0 {
		return Content{}, errors.New("a state contains records, which belong in the table")
	}
	e.Held.Records = e.HeldRecords.applyTo(c.Held.Records)
	e.Accepted.State.Records = e.AcceptedRecords.applyTo(e.Held.Records)
	err := errors.Join(checkTable(e.Held.Records), checkTable(e.Accepted.State.Records))
	return e.Content, err
}

// changesSince returns the changes between two tables, or nil if the second table is empty.
func changesSince(from, to member.Records) *changes {
	if to.Len() == 0 {
		return nil
	}
	c := &changes{}
	for old, now := range to.Changes(from) {
		if now.Key == "" {
			c.Dropped = append(c.Dropped, old.Key)
		} else {
			c.Set = append(c.Set, now)
		}
	}
	return c
}

// setRecords returns the records that c sets. c may be nil.
func (c *changes) setRecords() []member.Record {
	if c == nil {
		return nil
	}
	return c.Set
}

func (c *changes) applyTo(to member.Records) member.Records {
	if c == nil {
		return member.Records{}
	}
	for _, key := range c.Dropped {
		to = to.Drop(key)
	}
	for _, e := range c.Set {
		to = to.Put(e)
	}
	return to
}

// decodeStrict decodes exactly one JSON value and rejects unknown fields.
func decodeStrict(payload []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one JSON value")
	}
	return nil
}

// checkContent returns every fault of c, each naming its field. It checks only the records given as
// held and accepted; the others have already been checked.
func checkContent(c Content, held, accepted []member.Record) error {
	var faults []error
	fault := func(where string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", where, err))
		}
	}
	if err := c.checkOrigin(); err != nil {
		faults = append(faults, err)
	}
	if c.LeaseTimeout < 0 {
		fault("LeaseTimeout", fmt.Errorf("%v is negative", c.LeaseTimeout))
	}
	if c.HoldTimeout < 0 {
		fault("HoldTimeout", fmt.Errorf("%v is negative", c.HoldTimeout))
	}
	if c.StoreID.IsZero() {
		fault("StoreID", errors.New("is zero"))
	}
	fault("Promised", checkAddress(c.Promised.Ballot.Proposer))
	fault("Accepted", checkAddress(c.Accepted.ID.Ballot.Proposer))
	fault("Accepted.State", checkState(c.Accepted.State, accepted))
	fault("Held", checkState(c.Held, held))
	return errors.Join(faults...)
}

func checkState(s member.State, records []member.Record) error {
	if err := checkAddress(s.Leader); err != nil {
		return err
	}
	if !s.Number.IsZero() && s.Cluster.IsZero() {
		return errors.New("state without a cluster id")
	}
	if len(s.Roster) > member.MaxMembers {
		return fmt.Errorf("roster of %d members, the limit is %d", len(s.Roster), member.MaxMembers)
	}
	for _, m := range s.Roster {
		if m.Address.IsZero() {
			return errors.New("member without an address")
		}
		if err := checkAddress(m.Address); err != nil {
			return err
		}
		if len(m.Name) > member.MaxNameBytes || !member.IsPrintable(m.Name) {
			return fmt.Errorf("%s: its name is unprintable or longer than %d bytes",
				m.Address, member.MaxNameBytes)
		}
		if !m.Preference.IsValid() {
			return fmt.Errorf("%s: invalid preference %d", m.Address, m.Preference)
		}
		if err := m.Labels.Check(); err != nil {
			return fmt.Errorf("%s: %w", m.Address, err)
		}
		if m.Status < member.Joining || m.Status > member.Leaving {
			return fmt.Errorf("%s: invalid status of a roster entry: %s", m.Address, m.Status)
		}
	}
	if !s.Roster.IsSorted() {
		return errors.New("roster is not sorted by address")
	}
	for _, r := range records {
		if err := checkRecord(r); err != nil {
			return err
		}
	}
	return checkTable(s.Records)
}

func checkRecord(r member.Record) error {
	if !member.IsKey(r.Key) {
		return fmt.Errorf("record key %.300q is empty, unprintable or longer than %d bytes",
			r.Key, member.MaxKeyBytes)
	}
	if len(r.Value) > member.MaxValueBytes {
		return fmt.Errorf("record %s: value of %d bytes, the limit is %d",
			r.Key, len(r.Value), member.MaxValueBytes)
	}
	if err := checkAddress(r.Owner.Address); err != nil {
		return fmt.Errorf("record %s: %w", r.Key, err)
	}
	return nil
}

// checkTable checks properties of the whole table.
func checkTable(records member.Records) error {
	if r, ok := records.Find(""); ok { // Records.Changes treats a zero record as absent
		return checkRecord(r)
	}
	if records.Len() > member.MaxRecords {
		return fmt.Errorf("%d records, the limit is %d", records.Len(), member.MaxRecords)
	}
	if n := records.Bytes(); n > member.MaxRecordsBytes {
		return fmt.Errorf("records of %d bytes, the limit is %d", n, member.MaxRecordsBytes)
	}
	return nil
}

// checkAddress accepts the zero address and every address that survives formatting and
// parsing.
func checkAddress(a member.Address) error {
	if a.IsZero() || a.IsValid() {
		return nil
	}
	return fmt.Errorf("%w: host %q, port %d", member.ErrAddress, a.Host, a.Port)
}
