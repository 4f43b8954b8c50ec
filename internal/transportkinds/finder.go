// SPDX-License-Identifier: Apache-2.0

package transportkinds

import (
	"context"
	"crypto/tls"
	"errors"
	"sync"
	"time"

	"github.com/athena-go/athena/transport"
)

const (
	// askTimeout bounds a handshake of another transport.
	askTimeout = time.Second
	// A node asks the same address at most once per askInterval, and any address at most once per
	// askPause. So a peer that is down costs almost nothing, and at most askInterval/askPause answers
	// are stored.
	askInterval = 20 * time.Second
	askPause    = 100 * time.Millisecond
)

// Finder finds out whether an address that does not answer belongs to a node with another
// transport. A nil Finder does nothing.
type Finder struct {
	own    Transport
	others []Transport
	config *tls.Config
	ctx    context.Context // ends when the Finder is closed
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	next    time.Time         // when another address may be asked
	answers map[string]answer // by address
}

// answer records the answer of an address and its time.
type answer struct {
	at   time.Time
	kind Transport // zero if there was none
}

// NewFinder returns the Finder of a node that dials with the given config.
func NewFinder(own Transport, config *tls.Config) *Finder {
	f := &Finder{
		own: own, others: own.listOthers(), config: config, answers: make(map[string]answer),
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Close cancels all handshakes and waits for them to end.
func (f *Finder) Close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.cancel() // no handshake starts after this
	f.mu.Unlock()
	f.work.Wait()
}

// Explain must be called with the result of each dial to an address. If the address is known to
// belong to a node with another transport, Explain returns a *transport.ConfigMismatchError
// instead of err. Otherwise it returns err. If the address did not answer, Explain also asks it in
// the background, so that the next call has the answer.
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
		// The dial was canceled because the node has another connection or is closing.
	case now.Sub(known.at) < askInterval:
		if known.kind.Name != "" {
			return f.own.mismatch(known.kind)
		}
	case !now.Before(f.next) && f.ctx.Err() == nil:
		f.next = now.Add(askPause)
		for addr, known := range f.answers {
			if now.Sub(known.at) >= askInterval {
				delete(f.answers, addr)
			}
		}
		f.answers[addr] = answer{at: now} // ask replaces it
		f.work.Go(func() { f.ask(addr) })
	}
	return err
}

// ask tries the handshakes of the other transports. A handshake succeeds only with nodes that have
// the same secret or certificate authority.
func (f *Finder) ask(addr string) {
	for _, other := range f.others {
		ctx, cancel := context.WithTimeout(f.ctx, askTimeout)
		err := other.greet(ctx, addr, f.config)
		cancel()
		if err == nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.answers[addr] = answer{time.Now(), other}
			return
		}
	}
}
