// SPDX-License-Identifier: Apache-2.0

package transports

import (
	"context"
	"crypto/tls"
	"errors"
	"sync"
	"time"

	"github.com/athena-go/athena/transport"
)

const (
	// askTimeout bounds a handshake of the other transport.
	askTimeout = time.Second
	// A node asks one address once each askInterval, and any address once each askPause. So a
	// peer that is down costs next to nothing, and at most askInterval/askPause answers are
	// kept.
	askInterval = 20 * time.Second
	askPause    = 100 * time.Millisecond
)

// Finder finds out whether an address that cannot be dialed is that of a node with the other
// transport. A nil Finder asks nothing.
type Finder struct {
	own    Transport
	greet  handshake // of the other transport
	config *tls.Config
	ctx    context.Context // ends when the Finder is closed
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	next    time.Time         // when the next address may be asked
	answers map[string]answer // by address
}

// answer is what an address answered.
type answer struct {
	at      time.Time
	differs bool
}

// NewFinder returns the Finder of a node. config is the one with which the node dials.
func NewFinder(own Transport, config *tls.Config) *Finder {
	f := &Finder{
		own: own, greet: own.other().greet, config: config, answers: make(map[string]answer),
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Close ends all handshakes.
func (f *Finder) Close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.cancel() // ask starts nothing after it
	f.mu.Unlock()
	f.work.Wait()
}

// Explain is called with the result of each dial to an address. If the address is known to be
// that of a node with the other transport, Explain returns a *transport.ConfigMismatchError in
// place of err. Otherwise it returns err, and if the address gave no answer, asks it in the
// background, for the next dial.
func (f *Finder) Explain(addr string, err error) error {
	if f == nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now, known := time.Now(), f.answers[addr]
	switch isAnswer := err == nil || errors.Is(err, transport.ErrCertificate); {
	case isAnswer:
		delete(f.answers, addr)
	case errors.Is(err, context.Canceled):
		// The node has another connection, or is closing.
	case now.Sub(known.at) < askInterval:
		if known.differs {
			return f.own.mismatch()
		}
	case !now.Before(f.next) && f.ctx.Err() == nil:
		f.next = now.Add(askPause)
		for addr, known := range f.answers {
			if now.Sub(known.at) >= askInterval {
				delete(f.answers, addr)
			}
		}
		f.answers[addr] = answer{at: now} // until it has answered
		f.work.Go(func() { f.ask(addr) })
	}
	return err
}

// ask makes a handshake of the other transport. It succeeds with nodes of the same secret or
// authority only.
func (f *Finder) ask(addr string) {
	ctx, cancel := context.WithTimeout(f.ctx, askTimeout)
	defer cancel()
	if f.greet(ctx, addr, f.config) != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[addr] = answer{time.Now(), true}
}
