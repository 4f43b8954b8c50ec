// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Records is the table of records of a cluster, sorted by key, with one record per key. It is a
// value: Put and Drop return a new table, which shares its unchanged parts with the old table. So
// the cost of a change hardly depends on the number of records. The zero Records is empty.
type Records struct{ t *table }

// table holds the contents of a Records value. A table is immutable.
type table struct {
	chunks []*chunk // none is empty
	count  int
	bytes  int
	sum    uint64 // sum of the digests of the records
}

// chunk is a part of a table, and the unit of copying. A chunk is immutable.
type chunk struct {
	records []Record
	bytes   int
	sum     uint64
	owners  []recordOwner // ordered by their first records
}

// recordOwner is a run that owns records in a chunk.
type recordOwner struct {
	id      Identity
	revoked bool // whether at least one of the records is revoked
}

// maxChunk bounds the number of records in a chunk. With 32, a change of a full table
// copies about 4 KiB of records and 64 pointers.
const maxChunk = 32

var errUnsorted = errors.New("member: records are not sorted by key, or two have the same key")

// NewRecords returns a table of the records in list, whose keys must be strictly ascending.
// It keeps list, so the caller must not change it.
func NewRecords(list []Record) (Records, error) {
	for i := 1; i < len(list); i++ {
		if list[i-1].Key >= list[i].Key {
			return Records{}, errUnsorted
		}
	}
	t := &table{}
	for part := range slices.Chunk(list, maxChunk) {
		t.add(newChunk(part))
	}
	return t.value(), nil
}

func newChunk(records []Record) *chunk {
	c := &chunk{records: records}
	for i := range records {
		c.bytes += records[i].Bytes()
		c.sum += records[i].digest()
	}
	c.findOwners()
	return c
}

func (c *chunk) findOwners() {
	for i := range c.records {
		e := &c.records[i]
		if !e.IsOwned() {
			continue
		}
		at := slices.IndexFunc(c.owners, func(o recordOwner) bool { return o.id == e.Owner })
		if at < 0 {
			at = len(c.owners)
			c.owners = append(c.owners, recordOwner{id: e.Owner})
		}
		c.owners[at].revoked = c.owners[at].revoked || e.Revoked
	}
}

// add appends a chunk to a table that is still being built.
func (t *table) add(c *chunk) {
	t.chunks = append(t.chunks, c)
	t.count += len(c.records)
	t.bytes += c.bytes
	t.sum += c.sum
}

func (t *table) value() Records {
	if t.count == 0 {
		return Records{}
	}
	return Records{t}
}

// Len returns the number of records.
func (r Records) Len() int {
	if r.t == nil {
		return 0
	}
	return r.t.count
}

// Bytes returns a close upper bound on the encoded size of the table.
func (r Records) Bytes() int {
	if r.t == nil {
		return 0
	}
	return r.t.bytes
}

// Digest returns the sum of the digests of the records. Different tables have different
// digests with a probability of about 1 - 2^-64. The digest does not protect against an
// adversary.
func (r Records) Digest() uint64 {
	if r.t == nil {
		return 0
	}
	return r.t.sum
}

// All returns the records, sorted by key.
func (r Records) All() iter.Seq[Record] { return r.Under("") }

// Under returns the records whose keys begin with prefix, sorted by key.
func (r Records) Under(prefix string) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		if r.t == nil {
			return
		}
		at, i, _ := r.find(prefix)
		for _, c := range r.t.chunks[at:] {
			for _, e := range c.records[i:] {
				if !strings.HasPrefix(e.Key, prefix) || !yield(e) {
					return
				}
			}
			i = 0
		}
	}
}

// Owners returns the runs that own records, ordered by their first records. The second value
// reports whether one of the records of a run is revoked. A run may occur several times, for
// different records.
func (r Records) Owners() iter.Seq2[Identity, bool] {
	return func(yield func(Identity, bool) bool) {
		for _, c := range r.chunks() {
			for _, o := range c.owners {
				if !yield(o.id, o.revoked) {
					return
				}
			}
		}
	}
}

// find returns the position of a key: the index of the chunk for the key, and the index in that
// chunk.
func (r Records) find(key string) (at, i int, ok bool) {
	chunks := r.t.chunks
	at, _ = slices.BinarySearchFunc(chunks, key, func(c *chunk, key string) int {
		return strings.Compare(c.records[len(c.records)-1].Key, key)
	})
	if at == len(chunks) {
		at--
	}
	i, ok = slices.BinarySearchFunc(chunks[at].records, key, func(e Record, key string) int {
		return strings.Compare(e.Key, key)
	})
	return at, i, ok
}

// Find returns the record under key.
func (r Records) Find(key string) (Record, bool) {
	if r.t == nil {
		return Record{}, false
	}
	at, i, ok := r.find(key)
	if !ok {
		return Record{}, false
	}
	return r.t.chunks[at].records[i], true
}

// Put returns a table in which e is the record under its key.
func (r Records) Put(e Record) Records {
	if r.t == nil {
		t := &table{}
		t.add(newChunk([]Record{e}))
		return t.value()
	}
	at, i, ok := r.find(e.Key)
	old := r.t.chunks[at]
	c := &chunk{bytes: old.bytes + e.Bytes(), sum: old.sum + e.digest()}
	c.records = make([]Record, 0, len(old.records)+1)
	c.records = append(append(c.records, old.records[:i]...), e)
	if ok {
		was := old.records[i]
		c.bytes -= was.Bytes()
		c.sum -= was.digest()
		i++
	}
	c.records = append(c.records, old.records[i:]...)
	c.findOwners()
	if len(c.records) <= maxChunk {
		return r.t.replaceChunks(at, 1, c)
	}
	half := len(c.records) / 2
	return r.t.replaceChunks(at, 1, newChunk(c.records[:half:half]), newChunk(c.records[half:]))
}

// Drop returns a table without the record under key.
func (r Records) Drop(key string) Records {
	if r.t == nil {
		return r
	}
	at, i, ok := r.find(key)
	if !ok {
		return r
	}
	old := r.t.chunks[at]
	if len(old.records) == 1 {
		return r.t.replaceChunks(at, 1)
	}
	c := &chunk{records: slices.Concat(old.records[:i], old.records[i+1:])}
	c.bytes = old.bytes - old.records[i].Bytes()
	c.sum = old.sum - old.records[i].digest()
	c.findOwners()
	// Merge the chunk with the next chunk if half a chunk can hold both.
	if at+1 < len(r.t.chunks) {
		next := r.t.chunks[at+1]
		if len(c.records)+len(next.records) <= maxChunk/2 {
			return r.t.replaceChunks(at, 2, newChunk(slices.Concat(c.records, next.records)))
		}
	}
	return r.t.replaceChunks(at, 1, c)
}

// replaceChunks returns a new table in which the n chunks from the given index are replaced.
func (t *table) replaceChunks(at, n int, by ...*chunk) Records {
	out := &table{chunks: make([]*chunk, 0, len(t.chunks)+len(by)-n)}
	out.count, out.bytes, out.sum = t.count, t.bytes, t.sum
	for _, c := range t.chunks[at : at+n] {
		out.count -= len(c.records)
		out.bytes -= c.bytes
		out.sum -= c.sum
	}
	out.chunks = append(out.chunks, t.chunks[:at]...)
	for _, c := range by {
		out.add(c)
	}
	out.chunks = append(out.chunks, t.chunks[at+n:]...)
	return out.value()
}

// Equal reports whether both tables contain the same records.
func (r Records) Equal(o Records) bool {
	if r.Len() != o.Len() || r.Digest() != o.Digest() {
		return false
	}
	for range r.Changes(o) {
		return false
	}
	return true
}

// Changes returns the differences between an older table and r, sorted by key. Each is the record
// in the older table and the record in r; one of them is zero if the record was added or deleted.
// Parts that both tables share cost no time.
func (r Records) Changes(older Records) iter.Seq2[Record, Record] {
	return func(yield func(before, after Record) bool) {
		a, b := cursor{chunks: older.chunks()}, cursor{chunks: r.chunks()}
		for len(a.chunks) > 0 || len(b.chunks) > 0 {
			if a.skipShared(&b) {
				continue
			}
			before, after := a.peek(), b.peek()
			switch {
			case after == nil || before != nil && before.Key < after.Key:
				a.next()
				after = &Record{}
			case before == nil || after.Key < before.Key:
				b.next()
				before = &Record{}
			default:
				a.next()
				b.next()
				if before.equal(*after) {
					continue
				}
			}
			if !yield(*before, *after) {
				return
			}
		}
	}
}

func (r Records) chunks() []*chunk {
	if r.t == nil {
		return nil
	}
	return r.t.chunks
}

// cursor iterates over the records of a table.
type cursor struct {
	chunks []*chunk // the chunks that are left
	i      int      // index of the next record in the first chunk
}

// peek returns the next record, or nil at the end.
func (c *cursor) peek() *Record {
	if len(c.chunks) == 0 {
		return nil
	}
	return &c.chunks[0].records[c.i]
}

func (c *cursor) next() {
	if c.i++; c.i == len(c.chunks[0].records) {
		c.chunks, c.i = c.chunks[1:], 0
	}
}

// skipShared skips a chunk if both cursors are at the beginning of the same chunk.
func (c *cursor) skipShared(o *cursor) bool {
	if len(c.chunks) == 0 || len(o.chunks) == 0 || c.chunks[0] != o.chunks[0] || c.i+o.i > 0 {
		return false
	}
	c.chunks, o.chunks = c.chunks[1:], o.chunks[1:]
	return true
}

// In returns the records that remain valid when the roster takes effect (protocol.md section 10).
// In deletes the records of an owner that is leaving or has restarted, because that run no longer
// relies on them. Any other owner without a seat may not know yet that it lost the seat, so its
// records are revoked.
func (r Records) In(roster Roster) Records {
	out := r
	for e := range r.All() {
		if !e.IsOwned() || e.Owner.IsWorker() {
			continue
		}
		m, _ := roster.Find(e.Owner.Address)
		switch {
		case m.Voter() != e.Owner.Voter():
			if !e.Revoked {
				e.Revoked = true
				out = out.Put(e)
			}
		case m.Identity != e.Owner || m.Status == Leaving:
			out = out.Drop(e.Key)
		}
	}
	return out
}

// String lists the records.
func (r Records) String() string {
	return fmt.Sprint(slices.Collect(r.All()))
}
