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

	"github.com/athena-go/athena/internal/handshakes"
	"github.com/athena-go/athena/internal/transportkinds"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

const (
	// handshakeTimeout bounds the silence during a handshake. The whole handshake may take
	// twice as long.
	handshakeTimeout = 3 * time.Second
	// A connection ends if nothing arrives on it for idleTimeout. Packets sent every keepAlivePeriod
	// keep an idle one open. A connection survives any pause or partition shorter than idleTimeout.
	idleTimeout     = 30 * time.Second
	keepAlivePeriod = 10 * time.Second
	// The window of a stream bounds the unread bytes that a peer may send. For a fast reader it grows
	// until 25 MB/s are possible at a round-trip time of 10 ms. It starts small, because an unread
	// stream keeps its first window. These windows account for most of the memory that hostile peers
	// can make a node hold (docs/security.md). A peer may fill the windows of the frame streams and of
	// the bulk streams of both sides, streamsWindow in total. This is 9 MiB if all have grown, and 0.6
	// MiB before the peer is admitted. The window of the connection is larger, so that unread bulk
	// streams and custom frames do not block system frames. The window of the connection must be
	// larger by at least a third, because quic-go lets the peer send more only after a quarter of the
	// window was read.
	streamWindow     = 32 << 10
	maxStreamWindow  = 256 << 10
	streamsWindow    = (uint64(transport.Kinds) + 2*transport.MaxStreams) * maxStreamWindow
	connectionWindow = streamsWindow * 3 / 2
	// connectionIDBytes is so large that a packet of an earlier run is very unlikely to be taken for
	// one of this run.
	connectionIDBytes = 8
	// packetBytes is the packet size that every QUIC path must carry. Every connection starts with
	// this size: see path.go.
	packetBytes = 1200
)

// Config configures New.
type Config struct {
	transport.Config
	// Conn sends and receives the packets. The network closes Conn, and so does New if it fails.
	Conn net.PacketConn
	// Kernel declares that Conn sends its packets through a UDP socket of this host, so that the
	// network can ask hosts whether they refuse a port. A *net.UDPConn implies Kernel.
	Kernel bool
	// TLS is used for dialing and listening; see SecretTLS, CertificateTLS and InsecureTLS.
	// New sets the version and ALPN and disables sessions.
	TLS *tls.Config
	// Named declares that a certificate names its member, as with CertificateTLS, so its
	// holder cannot pose as another member.
	Named bool
	// ResetKey generates the stateless resets and must stay secret. If a node keeps it
	// across restarts, its peers detect a restart sooner. If it is zero, a random key is
	// used.
	ResetKey [32]byte
	// Resolve looks up a host name, at each dial. If it is nil, the system resolver is
	// used. IP addresses are not looked up.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Listen opens a UDP socket for New on host:port. It fails with transport.ErrAddressInUse
// if another process has the port.
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
	if err := checkBuffers(cfg.Conn); err != nil && cfg.Warn != nil {
		cfg.Warn(err)
	}
	return n, nil
}

// network is a QUIC endpoint.
type network struct {
	packets  net.PacketConn
	kernel   bool // see Config.Kernel
	quic     *quic.Transport
	listener *quic.Listener
	tls      *tls.Config // for dialing
	finder   *transportkinds.Finder
	named    bool // see Config.Named
	config   *quic.Config
	resolve  func(ctx context.Context, host string) ([]netip.Addr, error)
	dials    atomic.Uint32 // rotates through the addresses of a name
	paths    sync.Map      // paths of the connections, by ID
	reader   sync.WaitGroup
	failed   func(from member.Address, err error) // Config.HandshakeFailed
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
	n := &network{
		packets: cfg.Conn,
		kernel:  isSocket || cfg.Kernel,
		named:   cfg.Named,
		config:  quicConfig(),
		resolve: cfg.Resolve,
		failed:  cfg.HandshakeFailed,
	}
	g := newGate(handshakes.Limit(cfg.Size),
		unprovenPerMember*cfg.Size+extraUnproven, n.reportFailed)
	n.quic = &quic.Transport{
		Conn:                             joinPackets(cfg.Conn),
		ConnectionIDLength:               connectionIDBytes,
		StatelessResetKey:                &key,
		DisableVersionNegotiationPackets: true,
		VerifySourceAddress:              g.needsProof,
		ConnContext:                      g.enter,
	}
	if n.resolve == nil {
		n.resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	dial, listen := transportkinds.QUIC.Configure(cfg.TLS)
	n.tls = dial
	if n.kernel {
		n.finder = transportkinds.NewFinder(transportkinds.QUIC, dial)
	}
	listener, err := n.quic.Listen(listen, n.config)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("quicnet: listen: %w", err), n.Close())
	}
	n.listener = listener
	n.reader.Go(n.readProbes)
	return n, nil
}

func quicConfig() *quic.Config {
	return &quic.Config{
		Versions:                       []quic.Version{quic.Version1},
		HandshakeIdleTimeout:           handshakeTimeout,
		MaxIdleTimeout:                 idleTimeout,
		KeepAlivePeriod:                keepAlivePeriod,
		InitialPacketSize:              packetBytes,
		InitialStreamReceiveWindow:     streamWindow,
		MaxStreamReceiveWindow:         maxStreamWindow,
		InitialConnectionReceiveWindow: connectionWindow,
		MaxConnectionReceiveWindow:     connectionWindow,
		MaxIncomingStreams:             transport.MaxStreams,
		MaxIncomingUniStreams:          int64(transport.Kinds),
		RequireStreamCreditRelease:     true, // a stream counts until its handler returns
		EnableDatagrams:                true,
	}
}

func (n *network) Dial(ctx context.Context, to member.Address) (transport.Conn, error) {
	addr, only, err := n.lookUp(ctx, to)
	if err != nil {
		return nil, err
	}
	q, err := n.quic.Dial(ctx, addr, n.tls, n.config)
	if err = n.finder.Explain(addr.String(), translateError(err)); err != nil {
		if only { // otherwise the error would differ at each dial
			err = &net.OpError{Op: "dial", Net: "udp", Addr: addr, Err: err}
		}
		return nil, fmt.Errorf("quicnet: dial %s: %w", to, err)
	}
	return n.newConn(q, time.Now().Add(finishTime))
}

// lookUp returns an address of a host that the socket can send to, and whether it is the only one.
func (n *network) lookUp(
	ctx context.Context, to member.Address,
) (addr *net.UDPAddr, only bool, err error) {
	ip, err := netip.ParseAddr(to.Host)
	ips := []netip.Addr{ip}
	if err != nil {
		if ips, err = n.resolve(ctx, to.Host); err != nil {
			return nil, false, fmt.Errorf("%w (%s)", transport.ErrUnknownHost, resolveError(err))
		}
	}
	local, _ := n.packets.LocalAddr().(*net.UDPAddr)
	if ips = sendableAddrs(local, ips); len(ips) == 0 {
		return nil, false, fmt.Errorf("%w (no address is reachable from %v: listen on all addresses)",
			transport.ErrUnknownHost, local)
	}
	ip = ips[n.dials.Add(1)%uint32(len(ips))]
	addr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip.Unmap(), to.Port))
	return addr, len(ips) == 1, nil
}

// resolveError returns why a name was not resolved. The text does not change, although
// errors of the resolver contain the port that it happened to use.
func resolveError(err error) string {
	if fault, ok := errors.AsType[*net.DNSError](err); ok {
		return fault.Err
	}
	return err.Error()
}

// sendableAddrs returns the addresses whose family the socket supports.
func sendableAddrs(local *net.UDPAddr, ips []netip.Addr) []netip.Addr {
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

func (n *network) Accept() (transport.Conn, error) {
	for {
		q, err := n.listener.Accept(context.Background())
		if err != nil {
			return nil, fmt.Errorf("quicnet: accept: %w", err)
		}
		endHandshake(q.Context())
		if err := transportkinds.QUIC.Check(q.ConnectionState().TLS); err != nil {
			_ = q.CloseWithError(quic.ApplicationErrorCode(transport.CodeRefused), err.Error())
			n.reportFailed(q.RemoteAddr(), err)
			continue
		}
		c, err := n.newConn(q, time.Time{})
		if err == nil {
			return c, nil
		}
		n.reportFailed(q.RemoteAddr(), context.Cause(q.Context()))
	}
}

// reportFailed reports a failed handshake that another host started.
func (n *network) reportFailed(from net.Addr, err error) {
	if addr := transportkinds.AddressOf(from); !addr.IsZero() && n.failed != nil {
		n.failed(addr, translateError(err))
	}
}

func (n *network) Close() error {
	n.finder.Close()
	err := errors.Join(n.quic.Close(), n.packets.Close())
	n.reader.Wait()
	return err
}
