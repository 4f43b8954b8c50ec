// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/observe"
	"github.com/athena-go/athena/internal/tlsfiles"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/quicnet"
)

// openTransport opens the network, by default QUIC on UDP, and creates the Mesh on it.
func (n *Node) openTransport(o options) (*mesh.Mesh, error) {
	listen := func(c transport.Config) (transport.Network, error) {
		c.Addr, c.TLS = n.cfg.Addr, n.makeTLSConfig
		if o.transport == nil {
			return n.listenQUIC(c, o.socket)
		}
		network, err := o.transport(c)
		if err != nil {
			return nil, n.cfg.addrError(err)
		}
		return network, nil
	}
	m, err := mesh.New(mesh.Config{
		Encode:      wire.Encode,
		Decode:      wire.Decode,
		Size:        n.cfg.Size,
		CustomBytes: MaxEventBytes,
		Report:      n.handleReport,
	}, listen)
	switch {
	case errors.Is(err, transport.ErrAddressInUse):
		return nil, fmt.Errorf("%w: %w", ErrAddressInUse, err)
	case err != nil:
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return m, nil
}

// listenQUIC opens a QUIC network on a socket.
func (n *Node) listenQUIC(
	c transport.Config, socket func(addr string) (net.PacketConn, error),
) (transport.Network, error) {
	tlsConfig, named, err := n.makeTLSConfig()
	if err != nil {
		return nil, err
	}
	key, err := n.store.ResetKey()
	if err != nil {
		return nil, fieldErrorf("DataDir", "%s: %w", n.cfg.DataDir, err)
	}
	packets, err := socket(n.cfg.Addr)
	if err != nil {
		return nil, n.cfg.addrError(err)
	}
	return quicnet.New(quicnet.Config{
		Config: c, Conn: packets, TLS: tlsConfig, Named: named, ResetKey: key,
	})
}

func listenUDP(addr string) (net.PacketConn, error) {
	socket, err := quicnet.Listen(addr)
	if err != nil {
		return nil, err // an interface that holds a nil pointer would not be nil
	}
	return socket, nil
}

// addrError adds advice to an error of a socket at Addr.
func (c Config) addrError(err error) error {
	op, isSystem := errors.AsType[*net.OpError](err)
	unknown, isUnknown := errors.AsType[*net.DNSError](err)
	unusable, isUnusable := errors.AsType[*net.AddrError](err) // of a name
	switch {
	case isUnknown:
		err = unknown
	case isUnusable:
		err = unusable
	case isSystem:
		err = op.Err // without the address, whose port may be that of CheckAddr
	default:
		return err
	}
	about, args := "%s: ", []any{c.Addr}
	switch {
	case isUnknown, isUnusable, errors.Is(err, syscall.EADDRNOTAVAIL):
		about += "not an address of this machine: listen on 0.0.0.0 and set %s to the host:port at " +
			"which the others reach this node: "
		args = append(args, field("Advertise"))
	case errors.Is(err, fs.ErrPermission):
		about += "ports below 1024 need a privilege (CAP_NET_BIND_SERVICE on Linux): grant it, or " +
			"listen on a higher port: "
	}
	return fieldErrorf("Addr", about+"%w", append(args, err)...)
}

// firstUnprivilegedPort is the lowest port that needs no privilege on any system.
const firstUnprivilegedPort = 1024

// CheckAddr returns why Start could not listen on Addr on this machine: the address does not belong
// to it, the name is unknown, or the port needs a privilege. A port in use is not an error, because
// the node may be running. If possible, CheckAddr listens on a free port instead of the configured
// one. So it does not disturb a node that is starting. It may block while a name is resolved.
func (c Config) CheckAddr() error {
	host, port, err := net.SplitHostPort(c.Addr)
	if n, _ := strconv.Atoi(port); err == nil && n >= firstUnprivilegedPort {
		port = "0" // any free port
	}
	socket, err := quicnet.Listen(net.JoinHostPort(host, port))
	switch {
	case err == nil:
		return socket.Close()
	case errors.Is(err, transport.ErrAddressInUse):
		return nil
	default:
		return fmt.Errorf("cluster: %w", c.addrError(err))
	}
}

// tlsFiles returns the TLS files of the configuration.
func (c Config) tlsFiles() tlsfiles.Files {
	return tlsfiles.Files{CA: c.TLSCA, Cert: c.TLSCert, Key: c.TLSKey}
}

// makeTLSConfig returns the TLS configuration of a node, and whether certificates identify members.
// The dates of certificates are compared with the wall clock, not with the clock of leases.
func (n *Node) makeTLSConfig() (made *tls.Config, named bool, err error) {
	switch {
	case n.cfg.Insecure:
		made, err = quicnet.InsecureTLS(time.Now)
		return made, false, err
	case n.cfg.tlsFiles().Used():
		if n.identity, err = openCertificates(n.cfg, n.log); err != nil {
			return nil, false, err
		}
		return quicnet.CertificateTLS(n.identity.Current, time.Now), true, nil
	}
	secrets := [][]byte{n.cfg.Secret}
	if len(n.cfg.OtherSecret) > 0 {
		secrets = append(secrets, n.cfg.OtherSecret)
	}
	made, err = quicnet.SecretTLS(secrets, n.cfg.Cluster, time.Now)
	return made, false, err
}

// openCertificates loads the TLS files of a node, and logs when they change or expire.
func openCertificates(cfg settings, log *slog.Logger) (*tlsfiles.Source, error) {
	id := tlsfiles.Identity{Cluster: cfg.Cluster, Self: cfg.self}
	source, err := tlsfiles.Open(cfg.tlsFiles(), id, time.Now, func(r tlsfiles.Report) {
		l := certificateLines[r.Event]
		log.LogAttrs(context.Background(), l.level, l.text,
			observe.ErrAttr(r.Err), slog.Time("until", r.Until))
	})
	return source, asFieldErrors(err)
}

// line is the level and the text of a log line.
type line struct {
	level slog.Level
	text  string
}

// certificateLines maps each certificate event to its log line.
var certificateLines = map[tlsfiles.Event]line{
	tlsfiles.Changed: {slog.LevelInfo,
		"TLS files have changed: new handshakes use them"},
	tlsfiles.Unusable: {slog.LevelWarn,
		"cannot load the TLS files; keeping the previous certificate"},
	tlsfiles.Expired: {slog.LevelWarn, "the certificate of this node, or an " +
		"authority above it, has expired, so other nodes refuse it: replace the TLS files"},
	tlsfiles.Expiring: {slog.LevelWarn, "the certificate of this node, or an " +
		"authority above it, expires soon: replace the TLS files"},
}

// resetSecret returns the secret from which a node with a store in memory derives the key of
// stateless resets. Only nodes of the cluster may know it.
func (c Config) resetSecret() ([]byte, error) {
	if files := c.tlsFiles(); files.Used() {
		key, err := files.ReadKey()
		return key, asFieldErrors(err)
	}
	return c.Secret, nil
}

// NewSecret returns a new secret: MinSecretBytes random bytes in base64.
func NewSecret() []byte { return tlsfiles.NewSecret() }
