// SPDX-License-Identifier: Apache-2.0

package memnet

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/athena-go/athena/transport"
)

// bulks holds the bulk streams of a connection, for both of its ends, 0 and 1.
type bulks struct {
	mu     sync.Mutex
	open   []*bulkPipes
	opened [2]int  // streams opened by an end and not yet released by the other
	held   [2]bool // the bytes that this end writes are held back
	err    [2]error
}

// bulkPipes is a bulk stream: one pipe from each end.
type bulkPipes struct {
	out    [2]*pipe
	opener int
	over   [2]bool // the end has released the stream
}

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

// release marks a stream as released by one end.
func (b *bulks) release(side int, p *bulkPipes) {
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

// cancel ends a stream. If the connection has ended, it does nothing: the peer gets the
// error of the connection instead.
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

// hold starts or stops holding back the bytes that one end writes.
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

func (b *bulk) Cancel() {
	b.conn.bulks.cancel(b)
	if b.pair.opener == b.conn.side {
		b.Release() // the opener does not call Release
	}
}

func (b *bulk) Release() { b.conn.bulks.release(b.conn.side, b.pair) }

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

func (c *conn) AcceptStream() (transport.RawStream, error) {
	p, err := c.in.nextStream()
	if err != nil {
		return nil, err
	}
	return c.newBulk(p), nil
}

func (c *conn) SendDatagram(b []byte) error {
	c.out.addDatagram(b)
	return nil
}

func (c *conn) ReceiveDatagram() ([]byte, error) {
	b, err := c.in.nextDatagram()
	if err == nil {
		c.heard.Add(1)
	}
	return b, err
}

// maxDatagrams bounds the datagrams in flight in one direction.
const maxDatagrams = 32

// arrivals holds the streams and datagrams from one end that the other end has not accepted
// yet.
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

// update changes the arrivals and wakes the waiting goroutines.
func (a *arrivals) update(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
	a.changed.Broadcast()
}

// addStream needs no limit, because an end can open at most MaxStreams streams.
func (a *arrivals) addStream(p *bulkPipes) { a.update(func() { a.streams = append(a.streams, p) }) }

// addDatagram drops the datagram if the link is cut or maxDatagrams datagrams are waiting.
func (a *arrivals) addDatagram(b []byte) {
	a.update(func() {
		if !a.held && a.err == nil && len(a.datagrams) < maxDatagrams {
			a.datagrams = append(a.datagrams, b)
		}
	})
}

func (a *arrivals) hold(cut bool) { a.update(func() { a.held = cut }) }

func (a *arrivals) fail(err error) {
	a.update(func() {
		if a.err == nil {
			a.err = err
		}
	})
}

func (a *arrivals) nextStream() (*bulkPipes, error) {
	return nextOf(a, &a.streams, func() bool { return a.held })
}

func (a *arrivals) nextDatagram() ([]byte, error) {
	return nextOf(a, &a.datagrams, func() bool { return false })
}

// nextOf waits for an element of a queue and removes it. It returns no element while the function
// held returns true.
func nextOf[T any](a *arrivals, queue *[]T, held func() bool) (next T, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.err == nil && (held() || len(*queue) == 0) {
		a.changed.Wait()
	}
	if a.err != nil {
		return next, a.err
	}
	next = (*queue)[0]
	*queue = (*queue)[1:]
	return next, nil
}
