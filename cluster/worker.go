// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// A worker is an observer that owns records (protocol.md section 10, workers). It has a stream to
// one member at a time, which relays its messages to the leader and sends it the committed states.

const (
	// workPace is the shortest time between two states that a worker gets.
	workPace = 20 * time.Millisecond
	// aliveFrames is how many frames a worker gets in HoldTimeout, even if there is no leader.
	aliveFrames = 6
	// A member relays a message of a worker each relayPace, and maxBurst of them together, so that a
	// worker that sends without end does not delay the heartbeats of members.
	relayPace = 10 * time.Millisecond
	maxBurst  = 64
	// maxAnswers bounds the answers that wait for a worker. Further ones are lost, as on a network.
	maxAnswers = 64
)

var (
	errNoWorkers      = errors.New("cluster: this member serves no workers: see cluster.WithWorkers")
	errTooManyWorkers = fmt.Errorf("%w: this member serves as many workers as it may", ErrBusy)
)

// works holds the streams of workers.
type works struct {
	limit int // of streams

	mu      sync.Mutex
	open    map[member.Address]*work
	state   member.State  // the newest committed one; zero while no worker has a stream
	changed chan struct{} // closed when state changes
}

// work is the stream of a worker.
type work struct {
	raw     mesh.BulkStream
	answers chan message.Message
}

// addStream adds the stream of a worker, and ends its earlier one. It fails if there is no room.
func (w *works) addStream(who member.Address, of *work) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.limit <= 0:
		return errNoWorkers
	case len(w.open) >= w.limit && w.open[who] == nil:
		return errTooManyWorkers
	}
	if w.open == nil {
		w.open, w.changed = map[member.Address]*work{}, make(chan struct{})
	}
	if earlier := w.open[who]; earlier != nil {
		_ = earlier.raw.Close()
	}
	w.open[who] = of
	return nil
}

func (w *works) removeStream(who member.Address, of *work) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[who] == of {
		delete(w.open, who)
	}
}

// deliverAnswers passes on the answers of the leader and the newest committed state.
func (w *works) deliverAnswers(answers []message.Message, m *statemachine.Machine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.open) == 0 {
		return
	}
	for _, a := range answers {
		if of := w.open[a.To]; of != nil {
			select {
			case of.answers <- a:
			default:
			}
		}
	}
	if s := m.CommittedState(); w.state.Number != s.Number || w.state.Cluster != s.Cluster {
		w.state = s
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

func (w *works) watchState() (member.State, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state, w.changed
}

// Stream serves the stream of a worker, and passes other streams to the Messenger.
func (in inbound) Stream(from member.Identity, head []byte, raw mesh.BulkStream) {
	if !messaging.IsWork(from, head) {
		in.Messenger.Stream(from, head, raw)
		return
	}
	n := in.n
	of := &work{raw, make(chan message.Message, maxAnswers)}
	refused := ErrNotActive
	if !n.currentSnapshot().held.Cluster.IsZero() {
		refused = n.works.addStream(from.Address, of)
	}
	defer n.works.removeStream(from.Address, of)
	if messaging.AcceptWork(raw, refused) != nil {
		return
	}
	defer context.AfterFunc(n.life, func() { _ = raw.Close() })()
	defer raw.Close()
	ended := make(chan struct{})
	defer close(ended)
	n.work.Go(func() { n.writeWork(from, of, ended) })
	n.relayWork(from, bufio.NewReader(raw))
}

// relayWork passes the messages of a worker to the loop. It returns when the stream has ended, or
// if the worker sends anything else.
func (n *Node) relayWork(from member.Identity, r io.Reader) {
	pace := time.NewTimer(0)
	defer pace.Stop()
	for next := (time.Time{}); ; {
		m, err := messaging.ReadWork(r, messaging.MaxWorkBytes)
		switch {
		case errors.Is(err, wire.ErrMalformed) || errors.Is(err, wire.ErrTooLarge):
			n.reporter.DropFrame(from, messaging.DropMalformed, err)
			return
		case err != nil:
			return
		case m.From != from || !m.Body.Kind().IsRelayed():
			n.reporter.DropFrame(from, dropOtherSender, nil)
			return
		}
		now := time.Now()
		next = laterTime(next, now.Add(-maxBurst*relayPace)).Add(relayPace)
		pace.Reset(next.Sub(now))
		select {
		case <-pace.C:
		case <-n.life.Done():
			return
		}
		select {
		case n.relays <- m:
		case <-n.life.Done():
			return
		}
	}
}

func laterTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// writeWork writes to the stream of a worker: first a greeting, which contains the timings, then
// states and answers.
func (n *Node) writeWork(to member.Identity, of *work, ended <-chan struct{}) {
	defer of.raw.Close()
	var sent member.State
	greet := inbound{n: n}.Greet()
	greet.To = to.Address
	if messaging.WriteWork(of.raw, greet) != nil {
		return
	}
	var pause <-chan time.Time
	alive := time.NewTicker(n.cfg.timings.HoldTimeout() / aliveFrames)
	defer alive.Stop()
	for {
		state, changed := n.works.watchState()
		m := message.Message{From: n.currentSnapshot().view.Self, To: to.Address}
		if pause == nil && state.Number != sent.Number {
			m.Body = messaging.DescribeState(sent, state)
			if messaging.WriteWork(of.raw, m) != nil {
				return
			}
			sent, pause = state, time.After(workPace)
		}
		if pause != nil {
			changed = nil
		}
		select {
		case <-pause:
			pause = nil
		case <-alive.C:
			m.Body = message.SeedKeepAlive{}
			if messaging.WriteWork(of.raw, m) != nil {
				return
			}
		case a := <-of.answers:
			if messaging.WriteWork(of.raw, a) != nil {
				return
			}
		case <-changed:
		case <-ended:
			return
		case <-n.life.Done():
			return
		}
	}
}
