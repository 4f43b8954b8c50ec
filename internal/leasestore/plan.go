// SPDX-License-Identifier: Apache-2.0

package leasestore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/athena-go/athena/record"
)

// cell is what a commit knows of a key: its entry, if any.
type cell struct {
	storedRecord
	leased bool // whether the lease is there that it names
	live   bool // whether there is a record: an entry may be left behind
	others bool // whether another Store owns it
}

// judgeCell says what it is to the Store that has a lease.
func (c *cell) judgeCell(l lease) {
	c.live = c.revision != 0 && (c.Lease == "" || c.Lease == l.id || c.leased)
	c.others = c.live && c.Lease != "" && c.Lease != l.id
}

// cellsSeen is what this Store has seen.
func (s *Store) cellsSeen(keys []string) map[string]cell {
	s.mu.Lock()
	defer s.mu.Unlock()
	cells := map[string]cell{}
	for _, key := range keys {
		r := s.table.records[key]
		_, leased := s.table.leases[r.Lease]
		cells[key] = cell{storedRecord: r, leased: leased}
	}
	return cells
}

// readCells asks the service for the records, and then for what they end with.
func (s *Store) readCells(ctx context.Context, keys []string) (map[string]cell, error) {
	var names []string
	for _, key := range keys {
		names = append(names, records+key)
	}
	var cells map[string]cell
	err := retry(ctx, func(ctx context.Context) error {
		cells = map[string]cell{}
		entries, err := s.backend.Read(ctx, names...)
		if err != nil {
			return err
		}
		owners := map[string]bool{} // whether they exist
		for _, e := range entries {
			c := cell{storedRecord: recordOf(e)}
			cells[strings.TrimPrefix(e.Name, records)] = c
			if c.Lease != "" {
				owners[leases+c.Lease] = false
			}
		}
		found, err := s.backend.Read(ctx, slices.Collect(maps.Keys(owners))...)
		for _, e := range found {
			owners[e.Name] = true
		}
		for key, c := range cells {
			c.leased = owners[leases+c.Lease]
			cells[key] = c
		}
		return err
	})
	return cells, err
}

// planWrite is the write that ops ask for where the records are as cells say, which is its
// condition.
func (s session) planWrite(l lease, cells map[string]cell, ops []record.Op) ([]Change, error) {
	changes := map[string]Change{
		leases + l.id: {Kind: Check, Name: leases + l.id, Revision: l.revision},
	}
	for _, op := range ops {
		c := cells[op.Key]
		c.judgeCell(l)
		if err := c.refuseOp(op); err != nil {
			return nil, err
		}
		name, of := records+op.Key, leases+c.Lease
		if _, ok := changes[name]; !ok {
			changes[name] = Change{Kind: Check, Name: name, Revision: c.revision}
		}
		switch {
		case c.others:
			changes[of] = Change{Kind: Exists, Name: of}
		case c.revision != 0 && !c.live:
			changes[of] = Change{Kind: Check, Name: of}
		}
		if op.IsChange() {
			to := s.changeEntry(l, c, op)
			to.Name, to.Revision = name, c.revision
			changes[name] = to
		}
	}
	return slices.Collect(maps.Values(changes)), nil
}

// refuseOp is why op cannot be taken; nil where it can.
func (c cell) refuseOp(op record.Op) error {
	switch {
	case op.Kind == record.Absent && c.live:
		return fmt.Errorf("%w: there is a record %q", record.ErrConflict, op.Key)
	case op.Kind == record.Held && (!c.live || c.Revoked != 0 || c.tokenOf() != op.Token):
		return fmt.Errorf("%w: %q is not held by %v", record.ErrConflict, op.Key, op.Token)
	case (op.Kind == record.Set || op.Kind == record.SetOwned) && c.others:
		return fmt.Errorf("%w: %q, by %s", record.ErrOwned, op.Key, c.Member)
	}
	return nil
}

// changeEntry is what becomes of an entry by op.
func (s session) changeEntry(l lease, c cell, op record.Op) Change {
	switch {
	case op.Kind == record.Set:
		return Change{Kind: Put, Value: encodeJSON(storedRecord{Value: op.Value})}
	case op.Kind == record.SetOwned:
		return Change{Kind: Put, Value: encodeJSON(storedRecord{
			Value: op.Value, Lease: l.id, Member: s.cfg.Member, Session: s.id,
		})}
	case op.Kind != record.Drop:
		panic(fmt.Sprintf("leasestore: an Op has Kind %d, which is none", op.Kind))
	case c.revision == 0 || c.others && c.Revoked != 0:
		return Change{Kind: Check}
	case c.others:
		c.Revoked = c.revision
		return Change{Kind: Put, Value: encodeJSON(c.storedRecord)}
	default:
		return Change{Kind: Delete}
	}
}
