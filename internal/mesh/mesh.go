// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

const (
	// SendTimeout is how long Send waits for a connection.
	SendTimeout = 5 * time.Second
	// CloseTimeout bounds the flush in Close.
	CloseTimeout = time.Second

	// writeTimeout is how long a write of system frames may block before the connection is closed.
	writeTimeout = 5 * time.Second
	// drainTimeout is how long a connection that is being left may delay the system frames of the
	// kept connection.
	drainTimeout = time.Second
	// redialedDrains is how many times shorter than the silence that limit is for a connection beside
	// which another one was dialed: it may be dead.
	redialedDrains = 10
	// The cap for the pauses between dials is twice the heartbeat interval, within these limits.
	minRedialCap = 100 * time.Millisecond
	maxRedialCap = time.Second
	// A connection is silent if nothing has arrived since a write that is older than the heartbeat
	// timeout, within these limits. The node then dials another connection, while the silent one stays
	// open.
	minSilence = 500 * time.Millisecond
	maxSilence = 5 * time.Second
	// A Mesh keeps at most peersPerMember*Size + extraPeers peers. This is enough for a full cluster,
	// joiners, and members that have moved. Room for reservedPerMember*Size of them is reserved for
	// members and seeds.
	peersPerMember    = 4
	extraPeers        = 32
	reservedPerMember = 2
)

// Config configures a Mesh.
type Config struct {
	// Encode and Decode convert greetings to bytes and back. Decode receives bytes from peers that are
	// not yet authenticated as members.
	Encode func(message.Message) ([]byte, error)
	Decode func([]byte) (message.Message, error)
	// Key returns the key of the store that a greeting of this node names. It signs the channel
	// binding of each connection with that key.
	Key func(member.StoreID) storekey.Key
	// Size is the size of the cluster, N. It bounds the number of peers and of pending greetings.
	Size int
	// Observers bounds the observers that are connected, and Workers those of them that each keep a
	// bulk stream open.
	Observers, Workers int
	// CustomBytes bounds a custom frame; 0 means DefaultCustomBytes. A sender refuses a
	// longer frame, and a receiver closes the connection.
	CustomBytes int
	// Report, if not nil, is called for events that the node may want to log. The
	// goroutines of the Mesh call it, and it must not block.
	Report func(Report)
}

func (c Config) validate() error {
	var faults []error
	if c.Encode == nil || c.Decode == nil || c.Key == nil {
		faults = append(faults, errors.New("transport: Encode, Decode and Key are required"))
	}
	if c.Size < 1 {
		faults = append(faults, fmt.Errorf("transport: Size %d: must be at least 1", c.Size))
	}
	if c.CustomBytes < 1 || c.CustomBytes > MaxCustomBytes {
		faults = append(faults, fmt.Errorf("transport: CustomBytes %d: must be from 1 to %d",
			c.CustomBytes, MaxCustomBytes))
	}
	return errors.Join(faults...)
}

func (c Config) maxFrameBytes() int { return max(MaxSystemBytes, c.CustomBytes) }
func (c Config) maxPeers() int      { return peersPerMember*c.Size + extraPeers }

// Mesh carries frames between a node and its peers. Each pair of nodes shares one
// connection, which is dialed when there is something to send and kept as long as it works.
// The kinds of frames and the bulk streams do not wait for each other. Frames of one kind
// from one peer arrive in the order sent, each at most once. A frame must not be empty.
type Mesh struct {
	net     transport.Network
	cfg     Config
	stats   counters
	reports reporter

	// Set by Start and then read-only.
	handler   Handler
	self      member.Address
	redialCap time.Duration
	silence   time.Duration

	slots      *dialSlots
	dialing    atomic.Int64 // number of peers that are being dialed
	sharedRoom budget       // room for large frames of peers that are neither members nor seeds
	// observerRoom is the same for observers, and observerStreams counts their bulk streams.
	observerRoom    budget
	observerStreams atomic.Int64

	prepared preparation

	greets pendingGreets
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	closing bool
	peers   map[member.Address]*peer
	// observers is the number of peers that are observers.
	observers int

	closed   chan struct{} // closed when Close returns
	closeErr error         // error of closing the network; set before closed is closed
}

// New calls listen to open a network, and makes a Mesh on the network. If listen fails, New returns
// its error unchanged. Close also closes the network.
func New(
	cfg Config, listen func(transport.Config) (transport.Network, error),
) (*Mesh, error) {
	if cfg.CustomBytes == 0 {
		cfg.CustomBytes = DefaultCustomBytes
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	m := &Mesh{
		cfg:      cfg,
		reports:  reporter{to: cfg.Report},
		greets:   pendingGreets{limit: cfg.maxPeers()},
		peers:    make(map[member.Address]*peer),
		slots:    newDialSlots(),
		prepared: preparation{wake: make(chan struct{}, 1)},
		closed:   make(chan struct{}),
	}
	m.sharedRoom.free = max(sharedFrameBytes, cfg.maxFrameBytes())
	m.observerRoom.free = m.sharedRoom.free
	net, err := listen(transport.Config{
		Size:            cfg.Size,
		HandshakeFailed: m.onHandshakeFailed,
		Warn:            func(err error) { m.reports.report(Report{Kind: ReportSmallBuffers, Err: err}) },
	})
	if err != nil {
		return nil, err
	}
	m.net = net
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m, nil
}

// onHandshakeFailed is the value of transport.Config.HandshakeFailed. It counts only refusals.
// Handshakes that others started fail for many other reasons, most of them harmless.
func (m *Mesh) onHandshakeFailed(from member.Address, err error) {
	if isMismatch(err) {
		m.stats.handshakes[ResultRefused].Add(1)
		m.reports.reportStranger(Report{ReportHandshake, from, err})
		return
	}
	closed, ok := errors.AsType[*transport.CloseError](err)
	if errors.Is(err, transport.ErrCertificate) || ok && isRefusal(closed) {
		m.countCertificate(from, err)
	}
}

// countCertificate counts and reports that one of two nodes refused the other's certificate. from
// is the source of the packets, or the address that the dialer claims.
func (m *Mesh) countCertificate(from member.Address, err error) {
	m.stats.handshakes[ResultCertificate].Add(1)
	m.reports.reportStranger(Report{ReportHandshake, from, err})
}

// Start accepts connections and passes everything that arrives to h. It must be called
// once, before any other method, and does not block.
func (m *Mesh) Start(h Handler) error {
	greet := h.Greet()
	body, ok := greet.Body.(message.Greet)
	if !ok || greet.From.Address.IsZero() {
		return fmt.Errorf("%w: it is the greet of the handler itself", ErrNotGreet)
	}
	m.handler, m.self = h, greet.From.Address
	m.redialCap = min(max(2*body.Timings.HeartbeatInterval, minRedialCap), maxRedialCap)
	if m.self.IsObserver() {
		m.redialCap = observerRedialCap
	}
	silence := body.Timings.Longer(body.OtherTimings).HeartbeatTimeout
	m.silence = min(max(silence, minSilence), maxSilence)
	if !m.spawnWork(m.acceptConns) || !m.spawnWork(m.keepPrepared) {
		return ErrClosed
	}
	return nil
}

// Notify sends a system frame and never blocks. Without a connection it dials, and queues a few
// frames. When the queue is full, it drops the oldest frame. The caller must not change the frame
// afterwards.
func (m *Mesh) Notify(to member.Address, frame []byte) {
	if len(frame) == 0 || len(frame) > MaxSystemBytes {
		m.stats.countDrop(DropTooLarge, 1)
		return
	}
	p, err := m.holdPeer(to)
	switch {
	case errors.Is(err, ErrClosed):
		m.stats.countDrop(DropClosed, 1)
	case err != nil:
		m.stats.countDrop(DropNoPeer, 1)
	default:
		p.notify(frame)
		p.release()
	}
}

// Send sends a custom frame that may be sent together with others. See Destination.Send.
func (m *Mesh) Send(ctx context.Context, to member.Address, frame []byte) error {
	return m.Destination(to).Send(ctx, transport.Custom, frame, SendMode{})
}

// FailSends makes all waiting Sends to a peer fail with err, except answers: the peer may wait for
// them. It reports whether there is a connection to the peer.
func (m *Mesh) FailSends(to member.Address, err error) (connected bool) {
	m.withPeer(to, func(p *peer) {
		for k := range transport.Kinds {
			if k != transport.Answer {
				p.flows[k].refuse(err)
			}
		}
		connected = p.cur != nil
	})
	return connected
}

// SetStuck records that a peer takes no frames of a kind for now, or that it takes them again, if
// why is nil. Until then, Sends without room fail with ErrNoRoom and why.
func (m *Mesh) SetStuck(to member.Address, k transport.Kind, why error) {
	m.withPeer(to, func(p *peer) {
		f := &p.flows[k]
		if f.stuck = nil; why != nil {
			f.stuck = fmt.Errorf("%w: %s: %w", ErrNoRoom, to, why)
			f.refuse(f.stuck)
		}
	})
}

// withPeer calls f with a known peer while its mutex is held.
func (m *Mesh) withPeer(addr member.Address, f func(*peer)) {
	m.mu.Lock()
	p := m.peers[addr]
	m.mu.Unlock()
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		f(p)
	}
}

// Stats returns the counters. They are not read atomically as a whole.
func (m *Mesh) Stats() transport.Stats {
	s := m.stats.read()
	s.Observers = m.countObservers()
	return s
}

// Peers returns the state of each peer, in no particular order.
func (m *Mesh) Peers() []transport.PeerState {
	m.mu.Lock()
	peers := make([]*peer, 0, len(m.peers))
	for _, p := range m.peers {
		if !p.addr.IsObserver() {
			peers = append(peers, p)
		}
	}
	m.mu.Unlock()
	states := make([]transport.PeerState, len(peers))
	for i, p := range peers {
		states[i] = p.peerState()
	}
	return states
}

// Close flushes the frames passed to Notify and Send, for at most CloseTimeout, and then ends every
// connection and its streams. It waits for all goroutines of the Mesh, and thus for calls of the
// handler. Later calls wait for the first one.
func (m *Mesh) Close() error {
	m.mu.Lock()
	if m.closing {
		m.mu.Unlock()
		<-m.closed
		return m.closeErr
	}
	m.closing = true
	var leaving []*link
	for _, p := range m.peers {
		leaving = append(leaving, p.leave()...)
	}
	m.mu.Unlock()
	timeout := time.After(CloseTimeout)
	for expired, i := false, 0; !expired && i < len(leaving); i++ {
		select {
		case <-leaving[i].done:
		case <-timeout:
			expired = true
		}
	}
	m.cancel()
	for _, l := range leaving {
		l.end(transport.CodeClosed, shutdownReason, nil)
	}
	m.closeErr = m.net.Close()
	m.work.Wait()
	close(m.closed)
	return m.closeErr
}

// acceptConns accepts connections until the network is closed.
func (m *Mesh) acceptConns() {
	for {
		conn, err := m.net.Accept()
		if err != nil {
			if !m.isClosing() {
				m.reports.report(Report{Kind: ReportFailed, Err: err})
			}
			return
		}
		pending, evicted := m.greets.add(conn)
		if evicted != nil {
			evicted.conn.Close(transport.CodeBusy, "too many pending greets")
		}
		m.work.Go(func() {
			passed := func() { m.greets.removeGreet(pending) }
			defer passed()
			m.answerGreet(conn, passed)
		})
	}
}

// holdPeer returns the peer at an address. It adds an unknown address, provided that there is room.
// The peer is kept until the caller releases it.
func (m *Mesh) holdPeer(addr member.Address) (*peer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closing {
		return nil, ErrClosed
	}
	if p, ok := m.peers[addr]; ok {
		p.holders.Add(1)
		return p, nil
	}
	if addr == m.self {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnreachable, addr, ErrSelf)
	}
	if addr.IsObserver() {
		return m.addObserver(addr)
	}
	room := m.cfg.maxPeers()
	if m.handler != nil && !m.handler.Needs(addr) {
		room -= reservedPerMember * m.cfg.Size
	}
	if peers := len(m.peers) - m.observers; peers >= room && !m.forgetPeer(false) {
		return nil, fmt.Errorf("%w: %s: the limit of %d peers is reached", ErrUnreachable, addr, peers)
	}
	return m.addPeer(addr), nil
}

func (m *Mesh) addPeer(addr member.Address) *peer {
	p := newPeer(m, addr)
	p.holders.Add(1)
	m.peers[addr] = p
	return p
}

// forgetPeer removes an idle peer, an observer or another node, to make room for another. m.mu must
// be held.
func (m *Mesh) forgetPeer(observer bool) bool {
	for addr, p := range m.peers {
		if addr.IsObserver() != observer {
			continue
		}
		// A Destination holds the peer without m.mu: either it sees forgotten, or isIdle sees its hold.
		if p.forgotten.Store(true); p.isIdle() {
			delete(m.peers, addr)
			if observer {
				m.observers--
			}
			return true
		}
		p.forgotten.Store(false)
	}
	return false
}

func (m *Mesh) isClosing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closing
}

// spawnWork runs f in a goroutine that Close waits for. After Close it returns false
// without running f.
func (m *Mesh) spawnWork(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closing {
		return false
	}
	m.work.Go(f)
	return true
}
