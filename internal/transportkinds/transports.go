// SPDX-License-Identifier: Apache-2.0

// Package transportkinds detects nodes whose transports differ. All nodes of a cluster must use the
// same transport. A node that dials over QUIC gets no answer from a node that listens for TLS on
// TCP, and vice versa. So a node that gets no answer starts a handshake of the other transport, and
// names its own transport in it. The listening node recognizes that name and refuses the
// connection, and both nodes log the difference. No node listens on a second port for this.
package transportkinds

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/quic-go/quic-go"

	"github.com/athena-go/athena/transport"
)

// Transport names a transport.
type Transport struct {
	Name  string // name in the configuration
	ALPN  string // name in the TLS handshake
	greet handshake
}

// handshake dials an address, completes the handshake of a transport, and waits until the peer ends
// the connection or ctx is done.
type handshake func(ctx context.Context, addr string, config *tls.Config) error

// The transports.
var (
	QUIC = Transport{"quic", "athena/1", greetQUIC}
	TLS  = Transport{"tls", "athena-tls/1", greetTLS}
	all  = []Transport{QUIC, TLS}
)

// listOthers lists the other transports.
func (t Transport) listOthers() (list []Transport) {
	for _, o := range all {
		if o.Name != t.Name {
			list = append(list, o)
		}
	}
	return list
}

// Configure returns the TLS configurations with which a node dials and listens.
func (t Transport) Configure(own *tls.Config) (dial, listen *tls.Config) {
	dial = own.Clone()
	dial.MinVersion = tls.VersionTLS13
	// Do not resume sessions, so that every connection verifies the certificates.
	dial.SessionTicketsDisabled = true
	dial.ClientSessionCache = nil
	dial.NextProtos = []string{t.ALPN}
	listen = dial.Clone()
	listen.NextProtos = []string{t.ALPN}
	for _, o := range t.listOthers() {
		listen.NextProtos = append(listen.NextProtos, o.ALPN)
	}
	return dial, listen
}

// Check returns an error if the dialer of an accepted connection uses another transport. The node
// must then refuse the connection with this error.
func (t Transport) Check(state tls.ConnectionState) error {
	if state.NegotiatedProtocol == t.ALPN {
		return nil
	}
	theirs := Transport{Name: "unknown"}
	for _, o := range t.listOthers() {
		if state.NegotiatedProtocol == o.ALPN {
			theirs = o
		}
	}
	return t.mismatch(theirs)
}

// mismatch returns the error for a node with another transport.
func (t Transport) mismatch(theirs Transport) error {
	return &transport.ConfigMismatchError{Field: "Transport", Ours: t.Name, Theirs: theirs.Name}
}

// greetTLS is the handshake of package tlsnet.
func greetTLS(ctx context.Context, addr string, config *tls.Config) error {
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	c := tls.Client(raw, config)
	if err := c.HandshakeContext(ctx); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(c, 1)) // wait until the peer closes
	return nil
}

// greetQUIC is the handshake of package quicnet.
func greetQUIC(ctx context.Context, addr string, config *tls.Config) (err error) {
	at, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return err
	}
	packets, err := net.ListenUDP("udp", nil)
	if err != nil {
		return err
	}
	defer packets.Close()
	t := quic.Transport{Conn: socket{packets}}
	defer func() { err = errors.Join(err, t.Close()) }()
	c, err := t.Dial(ctx, at, config, &quic.Config{
		Versions: []quic.Version{quic.Version1}, DisablePathMTUDiscovery: true,
		EnableDatagrams: true, // quicnet requires them
	})
	if err != nil {
		return fmt.Errorf("quic: %w", err)
	}
	select {
	case <-c.Context().Done():
	case <-ctx.Done():
	}
	return nil
}

// socket hides the type of a UDP socket, so that quic-go does not print a warning about its
// buffers.
type socket struct{ net.PacketConn }

// SetReadBuffer does nothing.
func (socket) SetReadBuffer(int) error { return nil }

// SetWriteBuffer does nothing.
func (socket) SetWriteBuffer(int) error { return nil }
