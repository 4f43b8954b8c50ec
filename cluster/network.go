// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/internal/tlsfiles"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/quicnet"
)

// openTransport opens the network, by default QUIC on UDP, and creates the Mesh on it.
func (n *Node) openTransport(o options) (*mesh.Mesh, error) {
	listen, err := n.prepareNetwork(o)
	if err != nil {
		return nil, err
	}
	m, err := mesh.New(n.meshConfig(n.handleReport), listen)
	switch {
	case errors.Is(err, transport.ErrAddressInUse):
		return nil, fmt.Errorf("%w: %w", ErrAddressInUse, err)
	case err != nil:
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return m, nil
}

func (n *Node) meshConfig(report func(mesh.Report)) mesh.Config {
	return mesh.Config{
		Encode:      wire.Encode,
		Decode:      wire.Decode,
		Key:         n.keys.find,
		Size:        n.cfg.Size,
		Observers:   messaging.MaxObservers,
		Workers:     max(0, n.works.limit),
		CustomBytes: MaxEventBytes,
		Report:      report,
	}
}

// prepareNetwork loads the credentials and returns the function that opens the network.
func (n *Node) prepareNetwork(
	o options,
) (listen func(transport.Config) (transport.Network, error), err error) {
	loaded, err := loadCredentials(n.cfg, n.log)
	if err != nil {
		return nil, err
	}
	n.credentials.Store(loaded)
	return func(c transport.Config) (transport.Network, error) {
		c.Addr, c.TLS = n.cfg.Addr, n.makeTLSConfig
		if o.transport == nil {
			return n.listenQUIC(c, o.socket)
		}
		network, err := o.transport(c)
		if err != nil {
			return nil, n.cfg.addrError(err)
		}
		return network, nil
	}, nil
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
	return tlsfiles.Files{CA: c.TLSCA, Cert: c.TLSCert, Key: c.TLSKey, SPIFFE: c.TLSSPIFFE}
}

// credentials are the secrets or the certificate of a node.
type credentials struct {
	tls     *tls.Config
	files   *tlsfiles.Source // nil with secrets
	trusted *x509.CertPool   // the accepted authorities when the credentials were loaded
	// strayed is set if a handshake used other authorities, which the files had in the meantime.
	strayed atomic.Bool
}

// loadCredentials loads the secrets or the TLS files, or returns nil for an insecure node. The
// dates of certificates are compared with the wall clock, not with the clock of leases.
func loadCredentials(cfg settings, log *slog.Logger) (*credentials, error) {
	switch {
	case cfg.Insecure:
		return nil, nil
	case cfg.tlsFiles().Used():
		files, err := openCertificates(cfg, log)
		if err != nil {
			return nil, err
		}
		made := &credentials{files: files, trusted: files.Current().Authorities}
		made.tls = quicnet.CertificateTLS(func() quicnet.Credentials {
			current := files.Current()
			if !current.Authorities.Equal(made.trusted) {
				made.strayed.Store(true)
			}
			return current
		}, time.Now)
		return made, nil
	}
	secrets := [][]byte{cfg.Secret}
	if len(cfg.OtherSecret) > 0 {
		secrets = append(secrets, cfg.OtherSecret)
	}
	made, err := quicnet.SecretTLS(secrets, cfg.Cluster, time.Now)
	if err != nil {
		return nil, err
	}
	return &credentials{tls: made, trusted: made.RootCAs}, nil
}

// makeTLSConfig returns the TLS configuration of a node, and whether certificates identify members.
// Each handshake uses the credentials of that time.
func (n *Node) makeTLSConfig() (made *tls.Config, named bool, err error) {
	first := n.credentials.Load()
	if first == nil {
		made, err = quicnet.InsecureTLS(time.Now)
		return made, false, err
	}
	made = first.tls.Clone()
	made.RootCAs = nil // VerifyConnection has those of that time
	made.GetCertificate = func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return n.credentials.Load().tls.GetCertificate(h)
	}
	made.GetClientCertificate = func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return n.credentials.Load().tls.GetClientCertificate(r)
	}
	made.VerifyConnection = func(s tls.ConnectionState) error {
		return n.credentials.Load().tls.VerifyConnection(s)
	}
	return made, first.files != nil && n.cfg.TLSSPIFFE == "", nil
}

// SetCredentials replaces Secret, SecretFile, OtherSecret, TLSCA, TLSCert and TLSKey of the node by
// those of c, and reads the files again. It ignores the other fields of c. If it returns an error,
// it has changed nothing. A running node cannot change between a secret, certificates and Insecure.
//
// If the accepted secrets or authorities have changed, all connections are replaced without losing
// events. Streams that are open for another second end. A peer that can no longer authenticate
// loses its connections within 20 seconds.
func (n *Node) SetCredentials(c Config) error {
	next := n.cfg.Config
	next.Secret, next.SecretFile, next.OtherSecret = c.Secret, c.SecretFile, c.OtherSecret
	next.TLSCA, next.TLSCert, next.TLSKey = c.TLSCA, c.TLSCert, c.TLSKey
	next.Receiver = nil // in use
	s, err := next.parse()
	if err != nil {
		return err
	}
	have := n.credentials.Load()
	if s.Insecure || have == nil || s.tlsFiles().Used() != (have.files != nil) {
		return errors.New("cluster: a running node cannot change between a secret, certificates " +
			"and neither of them: stop all nodes, and start them with the new setting")
	}
	loaded, err := loadCredentials(s, n.log)
	if err != nil {
		return err
	}
	have = n.credentials.Swap(loaded)
	replaced := !loaded.trusted.Equal(have.trusted) || have.strayed.Load()
	if replaced {
		n.net.ReplaceConns()
	}
	n.log.Info("loaded the secrets or TLS files again", slog.Bool("connections_replaced", replaced))
	return nil
}

// openCertificates loads the TLS files of a node, and logs when they change or expire.
func openCertificates(cfg settings, log *slog.Logger) (*tlsfiles.Source, error) {
	id := tlsfiles.Identity{Cluster: cfg.Cluster, Self: cfg.self}
	source, err := tlsfiles.Open(cfg.tlsFiles(), id, time.Now, func(r tlsfiles.Report) {
		l := certificateLines[r.Event]
		log.LogAttrs(context.Background(), l.level, l.text,
			diagnosis.ErrAttr(r.Err), slog.Time("until", r.Until))
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
