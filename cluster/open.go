// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"syscall"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/quicnet"
)

// openStore opens the store in the data directory, or one that lasts as long as
// the node where there is none.
func (n *Node) openStore() (store.Store, error) {
	if n.cfg.DataDir == "" {
		if !n.cfg.Memory {
			n.log.Warn("no data directory is set: this node forgets its votes when it ends")
		}
		secret, err := n.cfg.resetSecret()
		if err != nil {
			return nil, fmt.Errorf("cluster: %w", err)
		}
		key, err := quicnet.DeriveResetKey(secret, n.cfg.Advertise)
		if err != nil {
			return nil, err
		}
		return store.NewMemory(key), nil
	}
	s, err := store.OpenFile(n.cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", fieldErrorf("DataDir", "%s: %w", n.cfg.DataDir, err))
	}
	return s, nil
}

// openTransport opens the network, QUIC on UDP without an option, and makes the Mesh on it.
func (n *Node) openTransport(o options) (*mesh.Mesh, error) {
	listen := o.transport
	if listen == nil {
		listen = func(c transport.Config) (transport.Network, error) { return n.listen(c, o.socket) }
	}
	m, err := mesh.New(mesh.Config{
		Encode:      wire.Encode,
		Decode:      wire.Decode,
		Size:        n.cfg.Size,
		CustomBytes: MaxEventBytes,
		Report:      n.reported,
	}, listen)
	switch {
	case errors.Is(err, transport.ErrAddressInUse):
		return nil, fmt.Errorf("%w: %w", ErrAddressInUse, err)
	case err != nil:
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return m, nil
}

// addrFault says what to do where there can be no socket at Addr.
func (c Config) addrFault(err error) error {
	op, isSystem := errors.AsType[*net.OpError](err)
	unknown, isUnknown := errors.AsType[*net.DNSError](err)
	unusable, isUnusable := errors.AsType[*net.AddrError](err) // that of a name
	switch {
	case isUnknown:
		err = unknown
	case isUnusable:
		err = unusable
	case isSystem:
		err = op.Err // without the address, which may be that of CheckAddr
	default:
		return err
	}
	about, args := "%s: ", []any{c.Addr}
	switch {
	case isUnknown, isUnusable, errors.Is(err, syscall.EADDRNOTAVAIL):
		about += "not an address of this machine: listen on 0.0.0.0 and give %s, host:port by " +
			"which the others reach this node: "
		args = append(args, field("Advertise"))
	case errors.Is(err, fs.ErrPermission):
		about += "ports below 1024 need a right of their own (CAP_NET_BIND_SERVICE on Linux), listen " +
			"on a greater one: "
	}
	return fieldErrorf("Addr", about+"%w", append(args, err)...)
}

// keptPorts are those below which the system may want a right of who listens.
const keptPorts = 1024

// CheckAddr says why Start could not listen on Addr on this machine: it is none of
// its addresses, a name that is not known, or a port that needs a right. A port that
// is in use is no fault: that of a running node is. It tries another port than the own,
// where that tells as much, so that nobody finds the own one taken, and may block for
// as long as a name is looked up.
func (c Config) CheckAddr() error {
	host, port, err := net.SplitHostPort(c.Addr)
	if n, _ := strconv.Atoi(port); err == nil && n >= keptPorts {
		port = "0" // any that is free
	}
	socket, err := quicnet.Listen(net.JoinHostPort(host, port))
	switch {
	case err == nil:
		return socket.Close()
	case errors.Is(err, transport.ErrAddressInUse):
		return nil
	default:
		return fmt.Errorf("cluster: %w", c.addrFault(err))
	}
}

// listen opens a network of QUIC on a socket.
func (n *Node) listen(
	c transport.Config, socket func(addr string) (net.PacketConn, error),
) (transport.Network, error) {
	certificates, err := n.certificates()
	if err != nil {
		return nil, err
	}
	key, err := n.store.ResetKey()
	if err != nil {
		return nil, fieldErrorf("DataDir", "%s: %w", n.cfg.DataDir, err)
	}
	packets, err := socket(n.cfg.Addr)
	if err != nil {
		return nil, n.cfg.addrFault(err)
	}
	return quicnet.New(quicnet.Config{
		Config: c, Conn: packets, TLS: certificates, Named: n.identity != nil, ResetKey: key,
	})
}

func listenUDP(addr string) (net.PacketConn, error) {
	socket, err := quicnet.Listen(addr)
	if err != nil {
		return nil, err // and no socket: an interface with a nil pointer is not nil
	}
	return socket, nil
}
