// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"sync"
	"time"

	"github.com/athena-go/athena/cluster"
	lead "github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

const (
	// handOverTimeout bounds how long a member that closes waits for another to lead.
	handOverTimeout = 5 * time.Second
	// againInterval is how long a member that gave up waits before it leads on since
	// no other can.
	againInterval = time.Second
)

// openQuorum lets a group be led by the leader of the cluster.
func (e *Election) openQuorum(n *cluster.Node) {
	ctx, stop := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	loops.Go(func() {
		for term := range n.Terms(ctx) {
			e.see(Leadership{term.Leader(), term.Token().Version})
			await(ctx, term.Done())
			e.see(Leadership{})
		}
	})
	loops.Go(func() {
		for term := range n.Terms(ctx) {
			for term.Valid() && e.life.Err() == nil {
				e.leadBy(ctx, n, term)
			}
		}
	})
	e.leave = func() {
		if term, ok := n.Leader(); ok && term.Valid() {
			ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
			_ = n.Transfer(ctx, member.Address{}) // where no other can lead, it leads on in name
			cancel()
		}
		stop()
		loops.Wait()
	}
}

// leadBy returns when this member leads by a term no more. Where it has given up, another
// leads then, or nobody else could.
func (e *Election) leadBy(ctx context.Context, n *cluster.Node, term lead.Term) {
	gaveUp := false
	_ = term.Do(ctx, func(held context.Context) error { // an error says that it is over
		r := e.begin(held, term.Token().Version, func(r *reign) { e.finish(r, ErrYielded) })
		defer context.AfterFunc(e.life, func() { r.end(context.Cause(e.life)) })()
		<-r.ctx.Done()
		gaveUp = held.Err() == nil && e.life.Err() == nil
		e.finish(r, context.Cause(r.ctx))
		e.rest(r)
		return nil
	})
	if gaveUp && n.Transfer(ctx, member.Address{}) != nil {
		e.pause(ctx, againInterval)
	}
}

func await(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
	}
}
