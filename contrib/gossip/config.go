// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// DefaultRejoinInterval is the default of Config.RejoinInterval.
	DefaultRejoinInterval = 2 * time.Second
	// reclaim is how long a member must be gone before a member with another address may use its name.
	// A container has a new address after each start.
	reclaim = 30 * time.Second
)

// Config configures a Node.
type Config struct {
	// Name is the id of this member. If several members propose themselves together, the one with the
	// lowest name leads. A Name is unique and has 1 to MaxNameBytes printable characters.
	Name string
	// Addr is the address to listen on with UDP and TCP, an IP address and a port. Port 0 selects any
	// free port.
	Addr string
	// Advertise is the address for other members, an IP address and a port. The default is Addr, or a
	// private address of this machine if the IP of Addr is 0.0.0.0. It is required if that IP is [::].
	Advertise string
	// Seeds are the nodes to join, as host and port, at the start and whenever they are not members. A
	// host may have several addresses.
	Seeds []string
	// Secret is shared by all members and has 16, 24 or 32 bytes, for AES-GCM. Without a Secret, Addr
	// must be a loopback address.
	Secret []byte
	// RejoinInterval is how often a few members of each part of a partitioned network try to
	// reach a lost member or a seed. The default is DefaultRejoinInterval.
	RejoinInterval time.Duration
	// Tune may change the configuration of memberlist, such as its timing, keyring and
	// transport. It gets DefaultLANConfig with the values of this Config. Changes to the fields Name,
	// Delegate, Events and Alive have no effect.
	Tune func(*memberlist.Config)
	// Logger gets the log of memberlist and of this package. The default is slog.Default().
	Logger *slog.Logger
}

// withDefaults returns c with defaults for empty fields, or an error that joins all faults.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("gossip: Config."+format, args...))
	}
	if !isName(c.Name, MaxNameBytes) {
		fault("Name is %.*q, want 1 to %d printable characters", MaxNameBytes, c.Name, MaxNameBytes)
	}
	addr, err := netip.ParseAddrPort(c.Addr)
	switch {
	case err != nil:
		fault("Addr is %q, want an IP address and a port: %w", c.Addr, err)
	case len(c.Secret) == 0 && !addr.Addr().IsLoopback():
		fault("Secret is missing: without one, Addr must be on loopback, not %s", c.Addr)
	case c.Advertise == "" && addr.Addr() == netip.IPv6Unspecified():
		fault("Addr is %s, which others cannot dial: set Advertise", c.Addr)
	case c.Advertise != "" && addr.Port() == 0:
		fault("Addr is %s, want a port above 0, because Advertise is set", c.Addr)
	}
	if a, err := netip.ParseAddrPort(c.Advertise); c.Advertise != "" &&
		(err != nil || a.Port() == 0 || a.Addr().IsUnspecified()) {
		fault("Advertise is %q, want an IP address and a port that others can dial", c.Advertise)
	}
	for _, s := range c.Seeds {
		if host, port, err := net.SplitHostPort(s); err != nil || host == "" || port == "" {
			fault("Seeds has %q, want a host and a port", s)
		}
	}
	if len(c.Secret) > 0 && memberlist.ValidateKey(c.Secret) != nil {
		fault("Secret has %d bytes, want 16, 24 or 32", len(c.Secret))
	}
	switch {
	case c.RejoinInterval < 0:
		fault("RejoinInterval is %v, want a positive duration, or 0 for %v", c.RejoinInterval,
			DefaultRejoinInterval)
	case c.RejoinInterval == 0:
		c.RejoinInterval = DefaultRejoinInterval
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, errors.Join(faults...)
}

// memberlist returns the configuration of memberlist, without its delegates. c must be valid; an
// error means that Tune made the configuration invalid.
func (c Config) memberlist() (*memberlist.Config, error) {
	addr := netip.MustParseAddrPort(c.Addr)
	m := memberlist.DefaultLANConfig()
	m.Name = c.Name
	m.BindAddr, m.BindPort = addr.Addr().String(), int(addr.Port())
	if c.Advertise != "" {
		out := netip.MustParseAddrPort(c.Advertise)
		m.AdvertiseAddr, m.AdvertisePort = out.Addr().String(), int(out.Port())
	}
	m.SecretKey = c.Secret
	m.DeadNodeReclaimTime = reclaim
	m.EnableCompression = false // compression is slow, and saves little in small packets
	m.Logger = newLogger(c.Logger)
	if c.Tune != nil {
		c.Tune(m)
	}
	m.Name = c.Name
	if m.GossipInterval <= 0 || m.GossipNodes <= 0 || m.RetransmitMult <= 0 {
		return nil, fmt.Errorf("gossip: Config.Tune sets GossipInterval to %v, GossipNodes to %d, "+
			"RetransmitMult to %d: all must be positive", m.GossipInterval, m.GossipNodes, m.RetransmitMult)
	}
	return m, nil
}
