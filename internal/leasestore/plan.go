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

// cell is the state of a key, as seen by a commit.
type cell struct {
	storedRecord
	leased bool // the lease of the record exists
	live   bool // the record exists, and not only its entry
	others bool // another Store owns it
}

// updateFor sets live and others as the Store with the given lease sees them.
func (c *cell) updateFor(l lease) {
	c.live = c.revision != 0 && (c.Lease == "" || c.Lease == l.id || c.leased)
	c.others = c.live && c.Lease != "" && c.Lease != l.id
}

// cellsFromTable returns the cells according to the table.
func (s *Store) cellsFromTable(keys []string) map[string]cell {
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

// readCells reads the records and their leases from the service.
func (s *Store) readCells(ctx context.Context, keys []string) (map[string]cell, error) {
	var names []string
	for _, key := range keys {
		names = append(names, records+key)
	}
	var cells map[string]cell
	err := retryCall(ctx, func(ctx context.Context) error {
		cells = map[string]cell{}
		entries, err := s.backend.Read(ctx, names...)
		if err != nil {
			return err
		}
		owners := map[string]bool{} // whether each lease exists
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

// planWrite returns the write for the ops, with the condition that the records are unchanged since
// the cells were read.
func (s session) planWrite(l lease, cells map[string]cell, ops []record.Op) ([]Change, error) {
	changes := map[string]Change{
		leases + l.id: {Kind: Check, Name: leases + l.id, Revision: l.revision},
	}
	for _, op := range ops {
		c := cells[op.Key]
		c.updateFor(l)
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

// refuseOp returns the reason to refuse op, or nil.
func (c cell) refuseOp(op record.Op) error {
	switch {
	case op.Kind == record.Absent && c.live:
		return fmt.Errorf("%w: record %q already exists", record.ErrConflict, op.Key)
	case op.Kind == record.Held && (!c.live || c.Revoked != 0 || c.tokenOf() != op.Token):
		return fmt.Errorf("%w: %q is not held by %v", record.ErrConflict, op.Key, op.Token)
	case (op.Kind == record.Set || op.Kind == record.SetOwned) && c.others:
		return fmt.Errorf("%w: %q, owned by %s", record.ErrOwned, op.Key, c.Member)
	}
	return nil
}

// changeEntry returns the change of an entry by op.
func (s session) changeEntry(l lease, c cell, op record.Op) Change {
	switch {
	case op.Kind == record.Set:
		return Change{Kind: Put, Value: encodeJSON(storedRecord{Value: op.Value})}
	case op.Kind == record.SetOwned:
		return Change{Kind: Put, Value: encodeJSON(storedRecord{
			Value: op.Value, Lease: l.id, Member: s.cfg.Member, Session: s.id,
		})}
	case op.Kind != record.Drop:
		panic(fmt.Sprintf("leasestore: Op with unknown Kind %d", op.Kind))
	case c.revision == 0 || c.others && c.Revoked != 0:
		return Change{Kind: Check}
	case c.others:
		c.Revoked = c.revision
		return Change{Kind: Put, Value: encodeJSON(c.storedRecord)}
	default:
		return Change{Kind: Delete}
	}
}
