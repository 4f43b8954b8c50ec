// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// saveTime is how long a slowStore takes to save. Every message arrives sooner than that.
const saveTime = 30 * time.Millisecond

// slowStore saves slowly.
type slowStore struct {
	*store.Memory
	fails int // number of the first call of Save that fails; 0: none fails

	saves atomic.Int64
	saved atomic.Pointer[paxos.Durable] // content of the last Save that returned nil
}

func (s *slowStore) Save(c store.Content) error {
	n := int(s.saves.Add(1))
	time.Sleep(saveTime)
	if s.fails != 0 && n >= s.fails {
		return errBoom
	}
	if err := s.Memory.Save(c); err != nil {
		return err
	}
	s.saved.Store(&c.Durable)
	return nil
}

// bears reports whether a node that has saved this state may send the message.
func bears(saved *paxos.Durable, m message.Message) bool {
	if saved == nil {
		return false // not even the sender's identity is saved
	}
	promised := func(id paxos.ID) bool {
		return id.Compare(saved.Promised) <= 0 || id.Version <= saved.Held.Version
	}
	holds := func(n member.Number) bool { return n.Compare(saved.Held.Number) <= 0 }
	switch b := m.Body.(type) {
	case message.Vote:
		accepted := b.Stage == message.Pre || b.ID.Compare(saved.Accepted.ID) <= 0 ||
			b.ID.Version <= saved.Held.Version
		return holds(b.Held) && (!b.Granted || promised(b.ID) && accepted)
	case message.Proposal:
		return promised(b.ID) && holds(b.Held)
	case message.LeaderElected:
		return holds(b.State.Number)
	case message.ClusterAlignment:
		return !m.Claim.Chosen || holds(b.State.Number)
	case message.MemberStatusUpdate:
		return !m.Claim.Chosen || holds(b.Number)
	case message.RecordUpdate:
		return holds(b.Number)
	case message.RecordResponse:
		return holds(b.Number)
	case message.LeaderKeepAlive:
		return !m.Claim.Chosen || holds(b.Number)
	case message.MemberLeave:
		return !b.GivenUp.Chosen || b.GivenUp.Version <= saved.Held.Version
	}
	return true
}

// runLooking is like runLoop, but first calls the function look with each message.
func (n *Node) runLooking(look func(message.Message)) {
	defer n.shutdown()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var out statemachine.Output
		select {
		case <-n.life.Done():
			return
		case m := <-n.inbox:
			m.leaveRooms()
			look(m.Message)
			out = n.machine.Step(n.clock(), m.Message)
		case c := <-n.calls:
			var err error
			out, err = c.verb(n.clock())
			c.reply <- err
		case <-timer.C:
			out = n.machine.Advance(n.clock())
		}
		if err := n.apply(n.clock(), out); err != nil {
			n.stop(err)
			return
		}
		n.armTimer(timer)
	}
}

// said counts the messages that depend on saved state.
type said struct{ votes, proposals, states int }

func (s *said) count(m message.Message) {
	switch b := m.Body.(type) {
	case message.Vote:
		if b.Granted {
			s.votes++
		}
	case message.Proposal:
		s.proposals++
	case message.LeaderElected, message.ClusterAlignment, message.MemberStatusUpdate,
		message.LeaderKeepAlive:
		s.states++
	}
}

// saveAndSay runs two of three nodes and makes each of them the leader in turn. One of them has the
// slow store; the other checks every message from it. If the node with the slow store stops,
// saveAndSay also returns the reason.
func saveAndSay(t *testing.T, slow *slowStore) (seen said, ended error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		cfg := w.config(1, Config{})
		other, err := openNode(t.Context(), cfg, newOptions(w.options(1)))
		if err != nil {
			t.Fatal(err)
		}
		go other.runLooking(func(m message.Message) {
			if m.From.Address != address(0) {
				return
			}
			seen.count(m)
			if saved := slow.saved.Load(); !bears(saved, m) {
				t.Errorf("Save fails from %d, now at %d: got\n%+v\nof a node that has saved\n%+v",
					slow.fails, slow.saves.Load(), m, saved)
			}
		})
		n, err := Start(store.NewContext(w.within(5*time.Second), slow), w.config(0, Config{}),
			w.options(0)...)
		w.nodes = []*Node{other}
		if err == nil {
			w.nodes = append(w.nodes, n)
			for range 2 {
				for _, n := range w.nodes {
					// n may have stopped, or may not lead.
					_ = n.WaitActive(w.within(time.Second), 2)
					_ = n.Transfer(w.within(time.Second), member.Address{})
				}
			}
		}
		// Long enough for delayed messages to arrive, and for a Save that still runs to fail.
		time.Sleep(5 * time.Second)
		if ended = err; err == nil {
			ended = n.Err()
		}
		w.close()
	})
	return seen, ended
}

// TestSavesBeforeItSends checks that a message that depends on saved state never leaves while Save
// runs, nor after Save has failed (protocol.md section 6, Durable).
func TestSavesBeforeItSends(t *testing.T) {
	slow := &slowStore{Memory: store.NewMemory([32]byte{})}
	seen, ended := saveAndSay(t, slow)
	if ended != nil || seen.votes < 2 || seen.proposals < 2 || seen.states < 2 {
		t.Errorf("got %+v, ended by %v; want a node that runs, and some of each", seen, ended)
	}
	for fails := range int(slow.saves.Load()) {
		slow := &slowStore{Memory: store.NewMemory([32]byte{}), fails: fails + 1}
		_, ended := saveAndSay(t, slow)
		reached := int(slow.saves.Load())
		if reached > slow.fails || reached == slow.fails && !errors.Is(ended, errBoom) {
			t.Errorf("Save fails from %d: got %d calls of Save, ended by %v; want that the first "+
				"failure ends the node", slow.fails, reached, ended)
		}
	}
}
