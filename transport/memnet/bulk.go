// SPDX-License-Identifier: Apache-2.0

package memnet

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/athena-go/athena/transport"
)

// bulks is the bulk streams of a connection, for both of its ends, 0 and 1.
type bulks struct {
	mu     sync.Mutex
	open   []*bulkPipes
	opened [2]int  // by an end, not yet released by the other one
	held   [2]bool // what an end writes does not arrive
	err    [2]error
}

// bulkPipes is a bulk stream: a pipe out of each end.
type bulkPipes struct {
	out    [2]*pipe
	opener int
	over   [2]bool // the end has done with it
}

// add makes a stream that an end opened.
func (b *bulks) add(side int, heard [2]*atomic.Uint64) (*bulkPipes, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.err[side] != nil:
		return nil, b.err[side]
	case b.opened[side] == transport.MaxStreams:
		return nil, transport.ErrTooManyStreams
	}
	b.opened[side]++
	p := &bulkPipes{opener: side}
	for i := range p.out {
		p.out[i] = newPipe(heard[i], heard[1-i])
		p.out[i].hold(b.held[i])
	}
	if err := b.err[1-side]; err != nil {
		p.out[side].failRead(err)
		p.out[1-side].failWrite(err)
	}
	b.open = append(b.open, p)
	return p, nil
}

// done notes that an end needs a stream no more.
func (b *bulks) done(side int, p *bulkPipes) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.over[side] {
		return
	}
	p.over[side] = true
	if side != p.opener {
		b.opened[p.opener]--
	}
	if p.over[1-side] {
		b.open = slices.DeleteFunc(b.open, func(o *bulkPipes) bool { return o == p })
	}
}

// cancel ends a stream, unless its connection is over: then the peer learns that.
func (b *bulks) cancel(end *bulk) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err[end.conn.side] == nil {
		end.out.cancelWrite()
		end.in.cancelRead()
	}
}

// fail breaks all streams for one end.
func (b *bulks) fail(side int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err[side] == nil {
		b.err[side] = err
	}
	for _, p := range b.open {
		p.out[1-side].failRead(err)
		p.out[side].failWrite(err)
	}
}

// hold stops, or lets go on, what one end writes.
func (b *bulks) hold(side int, cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[side] = cut
	for _, p := range b.open {
		p.out[side].hold(cut)
	}
}

// bulk is one end of a bulk stream.
type bulk struct {
	stream
	conn *conn
	pair *bulkPipes
}

func (c *conn) newBulk(p *bulkPipes) *bulk {
	return &bulk{stream{in: p.out[1-c.side], out: p.out[c.side]}, c, p}
}

// Cancel implements transport.RawStream.
func (b *bulk) Cancel() {
	b.conn.bulks.cancel(b)
	if b.pair.opener == b.conn.side {
		b.Release() // by itself
	}
}

// Release implements transport.RawStream.
func (b *bulk) Release() { b.conn.bulks.done(b.conn.side, b.pair) }

// OpenStream implements transport.Conn.
func (c *conn) OpenStream() (transport.RawStream, error) {
	heard := [2]*atomic.Uint64{&c.heard, &c.other.heard}
	if c.side == 1 {
		heard[0], heard[1] = heard[1], heard[0]
	}
	p, err := c.bulks.add(c.side, heard)
	if err != nil {
		return nil, err
	}
	c.out.addStream(p)
	return c.newBulk(p), nil
}

// AcceptStream implements transport.Conn.
func (c *conn) AcceptStream() (transport.RawStream, error) {
	p, err := c.in.nextStream()
	if err != nil {
		return nil, err
	}
	return c.newBulk(p), nil
}

// SendDatagram implements transport.Conn.
func (c *conn) SendDatagram(b []byte) error {
	c.out.addDatagram(b)
	return nil
}

// ReceiveDatagram implements transport.Conn.
func (c *conn) ReceiveDatagram() ([]byte, error) {
	b, err := c.in.nextDatagram()
	if err == nil {
		c.heard.Add(1)
	}
	return b, err
}

// maxDatagrams bounds the datagrams under way in one direction.
const maxDatagrams = 32

// arrivals is what one end told the other one, which has not yet asked for it.
type arrivals struct {
	mu        sync.Mutex
	changed   sync.Cond
	held      bool // the link is cut
	err       error
	streams   []*bulkPipes
	datagrams [][]byte
}

func newArrivals() *arrivals {
	a := &arrivals{}
	a.changed.L = &a.mu
	return a
}

func (a *arrivals) addStream(p *bulkPipes) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.streams = append(a.streams, p) // MaxStreams at most
	a.changed.Broadcast()
}

// addDatagram loses what is too much, and what a cut link does not carry.
func (a *arrivals) addDatagram(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held || a.err != nil || len(a.datagrams) == maxDatagrams {
		return
	}
	a.datagrams = append(a.datagrams, b)
	a.changed.Broadcast()
}

func (a *arrivals) nextStream() (*bulkPipes, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.err == nil && (a.held || len(a.streams) == 0) {
		a.changed.Wait()
	}
	if a.err != nil {
		return nil, a.err
	}
	p := a.streams[0]
	a.streams = a.streams[1:]
	return p, nil
}

func (a *arrivals) nextDatagram() ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.err == nil && len(a.datagrams) == 0 {
		a.changed.Wait()
	}
	if a.err != nil {
		return nil, a.err
	}
	b := a.datagrams[0]
	a.datagrams = a.datagrams[1:]
	return b, nil
}

func (a *arrivals) hold(cut bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = cut
	a.changed.Broadcast()
}

func (a *arrivals) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.err = err
	}
	a.changed.Broadcast()
}
