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
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

const (
	// SendTimeout is how long Send waits for a connection.
	SendTimeout = 5 * time.Second
	// CloseTimeout bounds the flush in Close.
	CloseTimeout = time.Second

	// greetTimeout bounds the exchange of greets on a new connection.
	greetTimeout = 3 * time.Second
	// writeTimeout closes a connection whose peer does not read system frames.
	writeTimeout = 5 * time.Second
	// drainTimeout is how long a connection that goes may hold up the system
	// frames of the one that stays.
	drainTimeout = time.Second
	// The pauses between attempts to dial grow up to twice the heartbeat
	// interval, within these limits.
	leastRedialCap = 100 * time.Millisecond
	mostRedialCap  = time.Second
	// A connection is silent, and dialed anew beside it, when nothing answered
	// what was written for the heartbeat timeout, within these limits.
	leastSilence = 500 * time.Millisecond
	mostSilence  = 5 * time.Second
	// Peers besides those of a full cluster: joiners, and who has moved.
	peersPerMember = 4
	peersMore      = 32
	// Of these, room is kept for members and seeds, at most Size of each.
	keptPerMember = 2
)

// Config is what a Mesh needs besides its Network.
type Config struct {
	// Encode and Decode turn greets into bytes and back. Decode gets what
	// anybody who could connect has sent.
	Encode func(message.Message) ([]byte, error)
	Decode func([]byte) (message.Message, error)
	// Size is the size of the cluster, N. It bounds the peers and the greets
	// under way.
	Size int
	// CustomBytes bounds a custom frame, 0 for DefaultCustomBytes. A longer
	// one is refused at the sender, and closes the connection at the receiver.
	CustomBytes int
	// Report is told what its owner may want to log; nil for nobody. It is
	// called from the Mesh's goroutines and must not block.
	Report func(Report)
}

func (c Config) validate() error {
	var faults []error
	if c.Encode == nil || c.Decode == nil {
		faults = append(faults, errors.New("transport: Encode and Decode are required"))
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

// maxFrameBytes is the longest frame of any kind.
func (c Config) maxFrameBytes() int { return max(MaxSystemBytes, c.CustomBytes) }

// maxPeers bounds the peers that a Mesh knows at one time.
func (c Config) maxPeers() int { return peersPerMember*c.Size + peersMore }

// Mesh carries frames between one node and its peers, over one connection a pair, which
// is made when there is something to send and kept while it works. The kinds of frames
// and each bulk stream travel apart: none waits for another to be read. Frames of one kind
// from one peer arrive in the order sent, each at most once. A frame must not be empty.
type Mesh struct {
	net   transport.Network
	cfg   Config
	stats counters
	told  reporter

	// Of Start; only read afterwards.
	handler   Handler
	self      member.Address
	redialCap time.Duration
	silence   time.Duration

	dialing atomic.Int64 // peers that are being dialed
	room    budget       // for large frames of all peers that are not needed

	greets chan struct{} // one entry a greet of another dialer under way
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	closing bool
	peers   map[member.Address]*peer

	closed   chan struct{} // closed once Close is over
	closeErr error         // of the network, before closed is closed
}

// New opens a network and makes a Mesh on it. The Mesh owns the network from then on: Close
// closes it too. It returns the error of listen as it is.
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
		cfg:    cfg,
		told:   reporter{to: cfg.Report},
		greets: make(chan struct{}, cfg.maxPeers()),
		peers:  make(map[member.Address]*peer),
		closed: make(chan struct{}),
	}
	m.room.free = max(sharedFrameBytes, cfg.maxFrameBytes())
	net, err := listen(transport.Config{
		Size: cfg.Size, HandshakeFailed: m.onHandshakeFailed, Warn: m.reportBuffers,
	})
	if err != nil {
		return nil, err
	}
	m.net = net
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m, nil
}

// onHandshakeFailed is transport.Config.HandshakeFailed. Handshakes that others began fail
// for many reasons, most of them harmless: only refusals count.
func (m *Mesh) onHandshakeFailed(from member.Address, err error) {
	closed, ok := errors.AsType[*transport.CloseError](err)
	if errors.Is(err, transport.ErrCertificate) || ok && isRefusal(closed) {
		m.countRefused(from, err)
	}
}

// countRefused notes that one of two nodes did not accept the certificate of the other.
// from is where the packets came from, or the address that the dialer claims to have.
func (m *Mesh) countRefused(from member.Address, err error) {
	m.stats.handshakes[ResultCertificate].Add(1)
	m.told.reportStranger(Report{ReportCertificate, from, err})
}

// reportBuffers is transport.Config.Warn.
func (m *Mesh) reportBuffers(err error) {
	m.told.report(Report{What: ReportSmallBuffers, Err: err})
}

// Start begins to accept connections and to pass what arrives to h. It is called once,
// before anything else, and does not block.
func (m *Mesh) Start(h Handler) error {
	greet := h.Greet()
	body, ok := greet.Body.(message.Greet)
	if !ok || greet.From.Address.IsZero() {
		return fmt.Errorf("%w: the handler's own", ErrNotGreet)
	}
	m.handler, m.self = h, greet.From.Address
	m.redialCap = min(max(2*body.Timings.HeartbeatInterval, leastRedialCap), mostRedialCap)
	m.silence = min(max(body.Timings.HeartbeatTimeout, leastSilence), mostSilence)
	if !m.spawn(m.accept) {
		return ErrClosed
	}
	return nil
}

// Notify sends a system frame. It never blocks: without a connection it starts to dial and
// keeps a few frames, of which the oldest are dropped first. The frame must not be changed
// afterwards.
func (m *Mesh) Notify(to member.Address, frame []byte) {
	if len(frame) == 0 || len(frame) > MaxSystemBytes {
		m.stats.countDrop(DropTooLarge, 1)
		return
	}
	p, err := m.hold(to)
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

// Send sends a custom frame and returns once the connection took it; the caller may then
// use the frame again. It blocks while the peer is slow (backpressure) until ctx ends, and
// while there is no connection for SendTimeout at most. An error means that the frame was
// not sent: it wraps ErrClosed, ErrTooLarge, ErrUnreachable or the cause of ctx.
func (m *Mesh) Send(ctx context.Context, to member.Address, frame []byte) error {
	return m.send(ctx, transport.Custom, to, frame, false)
}

// Answer is Send for frames that the peer's handler takes without waiting for anything,
// however slow it is with custom frames: else two nodes that answer each other could block
// each other for ever.
func (m *Mesh) Answer(ctx context.Context, to member.Address, frame []byte) error {
	return m.send(ctx, transport.Answer, to, frame, false)
}

// TrySend is Send for a frame that is taken at once or not at all; it returns false for the
// latter, whatever the reason.
func (m *Mesh) TrySend(to member.Address, frame []byte) bool {
	if len(frame) == 0 || len(frame) > m.cfg.CustomBytes {
		return false // Send says why
	}
	p, err := m.hold(to)
	if err != nil {
		return false
	}
	defer p.release()
	l, err := p.offer(&p.flows[transport.Custom], frame)
	if err != nil || l == nil {
		return false
	}
	l.signalWriter(transport.Custom)
	return true
}

// SendNow is Send, or Answer for that kind, for a single frame whose receiver waits for it:
// it is written at once, and not gathered with others.
func (m *Mesh) SendNow(
	ctx context.Context, k transport.Kind, to member.Address, frame []byte,
) error {
	return m.send(ctx, k, to, frame, true)
}

func (m *Mesh) send(
	ctx context.Context, k transport.Kind, to member.Address, frame []byte, now bool,
) error {
	if len(frame) == 0 || len(frame) > m.cfg.CustomBytes {
		m.stats.countDrop(DropTooLarge, 1)
		return fmt.Errorf("%w: %d bytes, want 1 to %d", ErrTooLarge, len(frame), m.cfg.CustomBytes)
	}
	p, err := m.hold(to)
	if err != nil {
		return err
	}
	defer p.release()
	return p.send(ctx, &p.flows[k], frame, now)
}

// Stats is a snapshot of what was counted. The counters are read one by one.
func (m *Mesh) Stats() transport.Stats { return m.stats.read() }

// Peers is a snapshot of the peers that the Mesh knows, in no order.
func (m *Mesh) Peers() []transport.PeerState {
	m.mu.Lock()
	peers := make([]*peer, 0, len(m.peers))
	for _, p := range m.peers {
		peers = append(peers, p)
	}
	m.mu.Unlock()
	states := make([]transport.PeerState, len(peers))
	for i, p := range peers {
		states[i] = p.state()
	}
	return states
}

// Close ends every connection and its streams, flushes what Notify and Send were given
// before within CloseTimeout, and waits until nothing is left running: for that, the methods
// of the handler must return. Later calls wait for the first one.
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
	timeout := time.NewTimer(CloseTimeout)
	defer timeout.Stop()
	for over, i := false, 0; !over && i < len(leaving); i++ {
		select {
		case <-leaving[i].done:
		case <-timeout.C:
			over = true
		}
	}
	m.cancel()
	for _, l := range leaving {
		l.end(transport.CodeClosed, goes, nil)
	}
	m.closeErr = m.net.Close()
	m.work.Wait()
	close(m.closed)
	return m.closeErr
}

// accept takes connections until the network is over.
func (m *Mesh) accept() {
	for {
		conn, err := m.net.Accept()
		if err != nil {
			if !m.isClosing() {
				m.told.report(Report{What: ReportFailed, Err: err})
			}
			return
		}
		select {
		case m.greets <- struct{}{}:
			m.work.Go(func() {
				m.welcome(conn)
				<-m.greets
			})
		default:
			conn.Close(transport.CodeBusy, "too many greets under way")
		}
	}
}

// hold returns the entry of an address, and makes one where there is room. It
// is not forgotten before its release.
func (m *Mesh) hold(addr member.Address) (*peer, error) {
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
	room := m.cfg.maxPeers()
	if m.handler != nil && !m.handler.Needs(addr) {
		room -= keptPerMember * m.cfg.Size
	}
	if len(m.peers) >= room && !m.forgetOne() {
		return nil, fmt.Errorf("%w: %s: %d peers are too many", ErrUnreachable, addr, len(m.peers))
	}
	p := newPeer(m, addr)
	p.holders.Add(1)
	m.peers[addr] = p
	return p, nil
}

// forgetOne makes room for another peer. The Mesh is locked.
func (m *Mesh) forgetOne() bool {
	for addr, p := range m.peers {
		if p.idle() {
			delete(m.peers, addr)
			return true
		}
	}
	return false
}

func (m *Mesh) isClosing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closing
}

// spawn runs f, which Close waits for; false when Close has begun.
func (m *Mesh) spawn(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closing {
		return false
	}
	m.work.Go(f)
	return true
}
