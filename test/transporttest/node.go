// SPDX-License-Identifier: Apache-2.0

package transporttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// settings are the parameters of a node.
type settings struct {
	greet  message.Message
	custom int // transport.Config.CustomBytes
	key    storekey.Key
	listed func(peer member.Address) bool // whether the state lists it; if nil, it lists every peer
	needs  func(peer member.Address) bool // if nil, every peer is needed
	// leadsBack is an address at which the node reaches itself, if it is not zero.
	leadsBack member.Address
}

// leadBack is a network in which an address leads a node to itself.
type leadBack struct {
	transport.Network
	settings
}

func (n leadBack) Dial(ctx context.Context, to member.Address) (transport.Conn, error) {
	if to == n.leadsBack {
		to = n.greet.From.Address
	}
	return n.Network.Dial(ctx, to)
}

// storeOf returns the key of the store of the node at an address.
func storeOf(at member.Address) (key storekey.Key) {
	copy(key[:], at.String())
	return key
}

func defaults(at member.Address) settings {
	return settings{key: storeOf(at), greet: message.Message{
		From: member.Identity{Address: at, StoreID: storeOf(at).StoreID(), Incarnation: 1},
		Body: message.Greet{
			Cluster:    "test",
			Size:       3,
			SeedDigest: 7,
			Timings: message.Timings{
				HeartbeatInterval: 100 * time.Millisecond,
				HeartbeatTimeout:  400 * time.Millisecond,
				LeaderTimeout:     time.Second,
				LeaseTimeout:      time.Second,
				TTLTimeout:        10 * time.Second,
				RetryInterval:     500 * time.Millisecond,
			},
			MinProtocol: 1,
			MaxProtocol: 2,
			ClusterID:   member.ClusterID{1},
		},
	}}
}

func (s *settings) edit(change func(*message.Greet)) {
	body := s.greet.Body.(message.Greet)
	change(&body)
	s.greet.Body = body
}

// node is a Mesh with a handler that records its calls.
type node struct {
	*mesh.Mesh
	settings
	t *testing.T

	mu       sync.Mutex
	changed  sync.Cond
	got      [transport.Kinds][]string
	from     [transport.Kinds][]member.Identity
	admitted []message.Message
	reports  []mesh.Report
	lost     []member.Identity
	stopped  [transport.Kinds]bool // kinds whose handler blocks
	inside   [transport.Kinds]int  // calls of the handler that have not returned
	most     [transport.Kinds]int

	streams   []*incoming
	datagrams []string
	slow      bool          // the handler of datagrams blocks
	quit      chan struct{} // closed to end the handlers of streams
}

// incoming is a stream passed to the handler, which returns when gone is closed.
type incoming struct {
	mesh.BulkStream
	from member.Identity
	head string
	gone chan struct{} // closed by the test
}

func join(t *testing.T, w World, at member.Address) *node {
	t.Helper()
	return joinAs(t, w, at, defaults(at))
}

func joinAs(t *testing.T, w World, at member.Address, s settings) *node {
	t.Helper()
	n := &node{settings: s, t: t, quit: make(chan struct{})}
	n.changed.L = &n.mu
	var err error
	n.Mesh, err = mesh.New(mesh.Config{
		Encode:      encode,
		Decode:      decode,
		Key:         func(member.StoreID) storekey.Key { return s.key },
		Size:        s.greet.Body.(message.Greet).Size,
		Observers:   maxObservers,
		CustomBytes: s.custom,
		Report:      n.report,
	}, func(transport.Config) (transport.Network, error) { return leadBack{w.Listen(t, at), s}, nil })
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if err := n.Start(n); err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() {
		for k := range transport.Kinds {
			n.resume(k)
		}
		n.setSlow(false)
		close(n.quit)
		_ = n.Close() // the test may have killed its network
	})
	return n
}

func (n *node) Greet() message.Message { return n.greet }

func (n *node) Needs(peer member.Address) bool { return n.needs == nil || n.needs(peer) }

func (n *node) StoreOf(peer member.Address) (store member.StoreID) {
	if n.listed == nil || n.listed(peer) {
		store = storeOf(peer).StoreID()
	}
	return store
}

func (n *node) Greeted(peer message.Message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.admitted = append(n.admitted, peer)
}

// The frames that a node asks with, and answers with, while another process claims an address.
const (
	question = "are you there?"
	yes      = "yes"
)

func (n *node) Ask(peer member.Address, _ member.StoreID) { n.Notify(peer, []byte(question)) }

func (n *node) System(from member.Identity, frame []byte) error {
	switch string(frame) {
	case question:
		n.Notify(from.Address, []byte(yes))
	case yes:
		n.NoteAnswer(from)
	default:
		n.take(transport.System, from, frame)
	}
	return nil
}

func (n *node) Custom(k transport.Kind, from member.Identity, frame []byte) error {
	n.take(k, from, frame)
	return nil
}

func (n *node) Lost(peer member.Identity) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lost = append(n.lost, peer)
}

func (n *node) take(k transport.Kind, from member.Identity, frame []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inside[k]++
	n.most[k] = max(n.most[k], n.inside[k])
	defer func() { n.inside[k]-- }()
	for n.stopped[k] {
		n.changed.Wait()
	}
	n.got[k] = append(n.got[k], string(frame))
	n.from[k] = append(n.from[k], from)
}

func (n *node) Stream(from member.Identity, head []byte, s mesh.BulkStream) {
	in := &incoming{s, from, string(head), make(chan struct{})}
	n.mu.Lock()
	n.streams = append(n.streams, in)
	n.mu.Unlock()
	select {
	case <-in.gone:
	case <-n.quit:
	}
}

func (n *node) Datagram(_ member.Identity, frame []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.slow {
		n.changed.Wait()
	}
	n.datagrams = append(n.datagrams, string(frame))
}

// setSlow makes the handler of datagrams block or lets it continue.
func (n *node) setSlow(slow bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow = slow
	n.changed.Broadcast()
}

// accepted returns the i-th stream passed to the handler.
func (n *node) accepted(i int) *incoming {
	n.t.Helper()
	eventually(n.t, time.Second, "the stream has been accepted", func() bool {
		return len(n.allAccepted()) > i
	})
	return n.allAccepted()[i]
}

func (n *node) allAccepted() []*incoming {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.streams)
}

func (n *node) gotDatagrams() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.datagrams)
}

func (n *node) report(r mesh.Report) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reports = append(n.reports, r)
}

// stop makes the handler of a kind block; resume lets it continue.
func (n *node) stop(k transport.Kind) { n.setStopped(k, true) }

func (n *node) resume(k transport.Kind) { n.setStopped(k, false) }

func (n *node) setStopped(k transport.Kind, stopped bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped[k] = stopped
	n.changed.Broadcast()
}

// received returns the frames of a kind that the handler has received so far.
func (n *node) received(k transport.Kind) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.got[k])
}

func (n *node) receivedBy(k transport.Kind) []member.Identity {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.from[k])
}

// lostPeers returns the peers for which Lost was called.
func (n *node) lostPeers() []member.Identity {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.lost)
}

// reported returns the errors of the reports of one kind.
func (n *node) reported(what mesh.ReportKind) []error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for _, r := range n.reports {
		if r.Kind == what {
			errs = append(errs, r.Err)
		}
	}
	return errs
}

func (n *node) peer(at member.Address) transport.PeerState {
	for _, p := range n.Peers() {
		if p.Address == at {
			return p
		}
	}
	return transport.PeerState{}
}

func (n *node) hasPeer(at member.Address) func() bool {
	return func() bool { return n.peer(at).Connected }
}

func (n *node) hasReceived(k transport.Kind, count int) func() bool {
	return func() bool { return len(n.received(k)) >= count }
}

func (n *node) address() member.Address { return n.greet.From.Address }

func (n *node) answer(to member.Address, frame []byte) error {
	return n.Destination(to).Send(n.t.Context(), transport.Answer, frame, mesh.SendMode{})
}

// sendEach sends a frame once as each kind except System.
func (n *node) sendEach(to member.Address, frame []byte) error {
	for k := transport.System + 1; k < transport.Kinds; k++ {
		if err := n.Destination(to).Send(n.t.Context(), k, frame, mesh.SendMode{}); err != nil {
			return fmt.Errorf("%v: %w", k, err)
		}
	}
	return nil
}

// connect connects two nodes; the first node dials.
func connect(t *testing.T, from, to *node) {
	t.Helper()
	got := len(to.received(transport.System))
	from.Notify(to.address(), []byte("hello"))
	eventually(t, 5*time.Second, "the nodes are connected", to.hasReceived(transport.System, got+1))
}

// encoded encodes a greeting for this package. The suite does not depend on the real encoding.
type encoded struct {
	From  member.Identity
	To    member.Address
	Greet message.Greet
}

func encode(m message.Message) ([]byte, error) {
	return json.Marshal(encoded{m.From, m.To, m.Body.(message.Greet)})
}

func decode(b []byte) (message.Message, error) {
	var e encoded
	if err := json.Unmarshal(b, &e); err != nil {
		return message.Message{}, err
	}
	if e.From.Address.IsZero() {
		return message.Message{}, errors.New("greet without an address")
	}
	return message.Message{From: e.From, To: e.To, Body: e.Greet}, nil
}
