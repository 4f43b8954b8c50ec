// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// alpn names the protocol in the TLS handshake.
const alpn = "athena/1"

const (
	// handshakeTimeout bounds the silence in a handshake; twice of it bounds
	// the handshake.
	handshakeTimeout = 3 * time.Second
	// idleTimeout ends a connection that heard nothing, and keepAlivePeriod
	// keeps one that has nothing to say. A connection outlives a pause or a
	// partition of less than idleTimeout, and goes on without a handshake.
	idleTimeout     = 30 * time.Second
	keepAlivePeriod = 10 * time.Second
	// The window of a stream is what a peer may send before it is read; it grows,
	// with a reader that is fast, to what a round trip of 10 ms takes at 25 MB/s. It
	// begins small, since a stream that is not read keeps the window it begins with:
	// that, and not what streams grow to, is most of what hostile peers can make a node
	// keep (docs/security.md). A peer may fill the windows of the streams of frames and
	// of all bulk streams, its own and ours: streamsWindow, 9 MiB if all have grown, and
	// 0.6 MiB before it is admitted. All of it fits into the window of the connection, so
	// that bulk streams and
	// custom frames which nobody reads do not stop system frames. It has to be
	// larger by a third at least: quic-go lets the peer send on only after a quarter
	// of the window was read.
	streamWindow     = 32 << 10
	maxStreamWindow  = 256 << 10
	streamsWindow    = (uint64(transport.Kinds) + 2*transport.MaxStreams) * maxStreamWindow
	connectionWindow = streamsWindow * 3 / 2
	// connectionIDBytes makes it unlikely that a packet of an earlier run is
	// taken for one of this run.
	connectionIDBytes = 8
	// Handshakes that peers began are refused above 4 x Size + 32 at a time, above half of
	// that from one address, and above five eighths from one prefix of IPv6. Above Size + 8
	// a peer has first to show that its address is its own: who sends in the names of
	// others, and has a host as well, leaves a quarter to the members, or an eighth where
	// that host has many addresses.
	handshakesPerMember, handshakesMore = 4, 32
	unprovenPerMember, unprovenMore     = 1, 8
	// packetBytes is what every path of QUIC carries. Larger packets that a path
	// carried for a while, and then no longer, would be sent for ever, and take the
	// heartbeats with them that share a packet with an event: quic-go does not notice.
	packetBytes = 1200
	// urgent is the priority of system frames; custom ones have QUIC's default
	// of 3, and less is sent first.
	urgent = 0
)

// Config is what New needs.
type Config struct {
	transport.Config
	// Conn sends and receives the packets. It is closed with the network,
	// and by New when that fails.
	Conn net.PacketConn
	// Kernel says that the packets of Conn go over a UDP socket of this host, as those of
	// a *net.UDPConn do without it: then hosts are asked whether they refuse a port.
	Kernel bool
	// TLS is used to dial and to listen: see SecretTLS, CertificateTLS and
	// InsecureTLS. Version, ALPN and sessions are set by New.
	TLS *tls.Config
	// Named says that a certificate names a member, as with CertificateTLS: a node that
	// shows it can be no other member.
	Named bool
	// ResetKey makes the stateless resets. A node that keeps it over its
	// restarts is noticed sooner by its peers. It is secret; zero for one that
	// is made at random.
	ResetKey [32]byte
	// Resolve looks a host name up, at each dial; nil for the resolver of the
	// system. Addresses are not looked up.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Listen opens a UDP socket for New on host:port. It fails with
// transport.ErrAddressInUse where another process has the port.
func Listen(addr string) (*net.UDPConn, error) {
	at, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, fmt.Errorf("quicnet: listen on %s: %w", addr, err)
	}
	conn, err := net.ListenUDP("udp", at)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("quicnet: listen on %s: %w: "+
			"stop the other process or choose another port", addr, transport.ErrAddressInUse)
	case err != nil:
		return nil, fmt.Errorf("quicnet: listen on %s: %w", addr, err)
	}
	return conn, nil
}

// New opens the network of a node.
func New(cfg Config) (transport.Network, error) {
	n, err := newNetwork(cfg)
	if err != nil {
		return nil, err
	}
	if err := smallBuffers(cfg.Conn); err != nil && cfg.Warn != nil {
		cfg.Warn(err)
	}
	return n, nil
}

// network is a QUIC endpoint.
type network struct {
	packets  net.PacketConn
	kernel   bool // packets go over a socket of the kernel
	quic     *quic.Transport
	listener *quic.Listener
	tls      *tls.Config
	named    bool // by their certificates, peers are
	config   *quic.Config
	resolve  func(ctx context.Context, host string) ([]netip.Addr, error)
	dials    atomic.Uint32                        // to try the addresses of a name by turns
	failed   func(from member.Address, err error) // HandshakeFailed of Config
}

var _ transport.Network = (*network)(nil)

func newNetwork(cfg Config) (*network, error) {
	if cfg.Conn == nil {
		return nil, errors.New("quicnet: Conn is required: see Listen")
	}
	if cfg.TLS == nil {
		return nil, errors.Join(cfg.Conn.Close(),
			errors.New("quicnet: TLS is required: see SecretTLS, CertificateTLS and InsecureTLS"))
	}
	if cfg.Size < 1 {
		return nil, errors.Join(cfg.Conn.Close(),
			fmt.Errorf("quicnet: Size %d: must be at least 1", cfg.Size))
	}
	key := quic.StatelessResetKey(cfg.ResetKey)
	if key == (quic.StatelessResetKey{}) {
		key = randomKey()
	}
	_, isSocket := cfg.Conn.(*net.UDPConn)
	var n *network
	g := newGate(handshakesPerMember*cfg.Size+handshakesMore, unprovenPerMember*cfg.Size+unprovenMore,
		func(from net.Addr, err error) { n.reportFailed(from, err) })
	n = &network{
		packets: cfg.Conn,
		kernel:  isSocket || cfg.Kernel,
		quic: &quic.Transport{
			Conn:                             cfg.Conn,
			ConnectionIDLength:               connectionIDBytes,
			StatelessResetKey:                &key,
			DisableVersionNegotiationPackets: true,
			VerifySourceAddress:              g.crowded,
			ConnContext:                      g.enter,
		},
		tls:     cfg.TLS.Clone(),
		named:   cfg.Named,
		config:  quicConfig(),
		resolve: cfg.Resolve,
		failed:  cfg.HandshakeFailed,
	}
	if n.resolve == nil {
		n.resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	n.tls.MinVersion = tls.VersionTLS13
	n.tls.NextProtos = []string{alpn}
	// Every connection verifies its certificates: there is nothing to resume.
	n.tls.SessionTicketsDisabled = true
	n.tls.ClientSessionCache = nil
	listener, err := n.quic.Listen(n.tls, n.config)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("quicnet: listen: %w", err), n.Close())
	}
	n.listener = listener
	return n, nil
}

func quicConfig() *quic.Config {
	return &quic.Config{
		Versions:                       []quic.Version{quic.Version1},
		HandshakeIdleTimeout:           handshakeTimeout,
		MaxIdleTimeout:                 idleTimeout,
		KeepAlivePeriod:                keepAlivePeriod,
		InitialPacketSize:              packetBytes,
		DisablePathMTUDiscovery:        true,
		InitialStreamReceiveWindow:     streamWindow,
		MaxStreamReceiveWindow:         maxStreamWindow,
		InitialConnectionReceiveWindow: connectionWindow,
		MaxConnectionReceiveWindow:     connectionWindow,
		MaxIncomingStreams:             transport.MaxStreams,
		MaxIncomingUniStreams:          int64(transport.Kinds),
		// A stream counts until its handler has returned.
		RequireStreamCreditRelease: true,
		EnableDatagrams:            true,
	}
}

// Dial implements transport.Network.
func (n *network) Dial(ctx context.Context, to member.Address) (transport.Conn, error) {
	addr, err := n.lookUp(ctx, to)
	if err != nil {
		return nil, err
	}
	q, err := n.quic.Dial(ctx, addr, n.tls, n.config)
	if err != nil {
		return nil, fmt.Errorf("quicnet: dial %s: %w", to, translate(err))
	}
	return n.newConn(q)
}

// lookUp chooses an address of a host to which the socket can send.
func (n *network) lookUp(ctx context.Context, to member.Address) (*net.UDPAddr, error) {
	ip, err := netip.ParseAddr(to.Host)
	if err != nil {
		ips, err := n.resolve(ctx, to.Host)
		if err != nil {
			return nil, fmt.Errorf("%w (%s)", transport.ErrUnknownHost, unresolved(err))
		}
		local, _ := n.packets.LocalAddr().(*net.UDPAddr)
		ips = sendable(local, ips)
		if len(ips) == 0 {
			return nil, fmt.Errorf("%w (no address that can be reached from %v)",
				transport.ErrUnknownHost, n.packets.LocalAddr())
		}
		ip = ips[n.dials.Add(1)%uint32(len(ips))]
	}
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip.Unmap(), to.Port)), nil
}

// unresolved says why a name was not resolved, the same way each time: errors of
// the resolver name the ports that it happened to use.
func unresolved(err error) string {
	if fault, ok := errors.AsType[*net.DNSError](err); ok {
		return fault.Err
	}
	return err.Error()
}

// sendable leaves out the addresses of a family that the socket does not speak.
func sendable(local *net.UDPAddr, ips []netip.Addr) []netip.Addr {
	if local == nil || local.IP.Equal(net.IPv6unspecified) {
		return ips
	}
	var same []netip.Addr
	for _, ip := range ips {
		if ip.Unmap().Is4() == (local.IP.To4() != nil) {
			same = append(same, ip)
		}
	}
	return same
}

// Accept implements transport.Network.
func (n *network) Accept() (transport.Conn, error) {
	for {
		q, err := n.listener.Accept(context.Background())
		if err != nil {
			return nil, fmt.Errorf("quicnet: accept: %w", err)
		}
		leave(q.Context())
		c, err := n.newConn(q)
		if err == nil {
			return c, nil
		}
		n.reportFailed(q.RemoteAddr(), context.Cause(q.Context()))
	}
}

// reportFailed reports a handshake that another host began.
func (n *network) reportFailed(from net.Addr, err error) {
	addr, parseErr := member.ParseAddress(from.String())
	if parseErr == nil && n.failed != nil {
		n.failed(addr, translate(err))
	}
}

// Close implements transport.Network.
func (n *network) Close() error {
	return errors.Join(n.quic.Close(), n.packets.Close())
}

// gate bounds the handshakes that others have begun, in all and from one host:
// a host that begins handshakes and never ends them leaves room for the others. As one
// host count an address, and all addresses of IPv6 of one prefix, since a host has as many
// as it likes; that of the prefix is more, for the neighbours of a host that has one.
type gate struct {
	limit, unproven int
	failed          func(from net.Addr, err error) // is told of handshakes that ended without

	mu    sync.Mutex
	under int // under way
	hosts map[netip.Prefix]int
}

func newGate(limit, unproven int, failed func(from net.Addr, err error)) *gate {
	return &gate{limit: limit, unproven: unproven, failed: failed, hosts: map[netip.Prefix]int{}}
}

type gateKey struct{}

var errCrowded = errors.New("quicnet: too many handshakes under way")

// crowded reports whether a dialer has to show first that it is where it says.
func (g *gate) crowded(net.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.under >= g.unproven
}

// enter counts a handshake until leave, or until its connection is over.
func (g *gate) enter(ctx context.Context, from *quic.ClientInfo) (context.Context, error) {
	hosts := hostsOf(from.RemoteAddr)
	if !g.begin(hosts) {
		return nil, errCrowded
	}
	stop := context.AfterFunc(ctx, func() {
		g.end(hosts)
		g.failed(from.RemoteAddr, context.Cause(ctx))
	})
	return context.WithValue(ctx, gateKey{}, func() {
		if stop() {
			g.end(hosts)
		}
	}), nil
}

// begin counts one more, unless that is one too many.
func (g *gate) begin(hosts []netip.Prefix) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	full := g.under >= g.limit
	for _, h := range hosts {
		most := g.limit / 2
		if !h.IsSingleIP() {
			most = g.limit * 5 / 8
		}
		full = full || g.hosts[h] >= most
	}
	if full {
		return false
	}
	g.under++
	for _, h := range hosts {
		g.hosts[h]++
	}
	return true
}

func (g *gate) end(hosts []netip.Prefix) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.under--
	for _, h := range hosts {
		if g.hosts[h]--; g.hosts[h] == 0 {
			delete(g.hosts, h)
		}
	}
}

// hostsOf is what counts as the host of an address: it, and of IPv6 its prefix.
func hostsOf(a net.Addr) []netip.Prefix {
	u, ok := a.(*net.UDPAddr)
	if !ok {
		return nil
	}
	ip := u.AddrPort().Addr().Unmap().WithZone("")
	hosts := []netip.Prefix{netip.PrefixFrom(ip, ip.BitLen())}
	if ip.Is6() {
		hosts = append(hosts, netip.PrefixFrom(ip, 64).Masked())
	}
	return hosts
}

// leave ends the count of a handshake by the context of its connection.
func leave(ctx context.Context) {
	if out, ok := ctx.Value(gateKey{}).(func()); ok {
		out()
	}
}
