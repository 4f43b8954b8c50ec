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
	// DefaultRejoinInterval is how often members that were lost are looked for.
	DefaultRejoinInterval = 2 * time.Second
	// reclaim is for how long a member must be gone before another address may have its
	// name: that of a container is a new one with each start.
	reclaim = 30 * time.Second
)

// Config is what a Node begins with.
type Config struct {
	// Name is the id of this member: of those that propose themselves at once the lowest
	// leads. 1 to MaxNameBytes printable characters, unique.
	Name string
	// Addr is where to listen, by UDP and TCP: an IP address and a port, 0 for any.
	Addr string
	// Advertise is what others dial, also an IP address and a port. Empty is Addr, or,
	// where that is 0.0.0.0, a private address of this machine. [::] needs one.
	Advertise string
	// Seeds are some members, as host and port, that are joined at the start and
	// whenever they are no members. A name of many hosts is fine.
	Seeds []string
	// Secret is shared by all members, of 16, 24 or 32 bytes: AES-GCM. Without one Addr
	// must be on loopback.
	Secret []byte
	// RejoinInterval is how often a few members of each part try to reach one that was
	// lost, or a seed. Zero is DefaultRejoinInterval.
	RejoinInterval time.Duration
	// Tune changes the configuration of memberlist, which is DefaultLANConfig but for
	// what this Config says: its timing, its keyring, its transport. Nil changes nothing.
	// Name, Delegate, Events and Alive are of this package, whatever it says.
	Tune func(*memberlist.Config)
	// Logger gets what memberlist logs, and what this package does. Nil is slog.Default.
	Logger *slog.Logger
}

// withDefaults fills in what is empty, or returns every fault at once.
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
		fault("Secret is missing: without one Addr must be on loopback, and it is %s", c.Addr)
	case c.Advertise == "" && addr.Addr() == netip.IPv6Unspecified():
		fault("Addr is %s, which nobody can dial: set Advertise", c.Addr)
	case c.Advertise != "" && addr.Port() == 0:
		fault("Addr is %s, want a port where there is Advertise", c.Addr)
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
		fault("RejoinInterval is %v, want more than 0, or 0 for %v", c.RejoinInterval,
			DefaultRejoinInterval)
	case c.RejoinInterval == 0:
		c.RejoinInterval = DefaultRejoinInterval
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, errors.Join(faults...)
}

// memberlist is the configuration of that, without its delegates. The Config is valid but
// for what Tune does.
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
	m.EnableCompression = false // takes most of the time of small packets, and gains little
	m.Logger = logger(c.Logger)
	if c.Tune != nil {
		c.Tune(m)
	}
	m.Name = c.Name
	if m.GossipInterval <= 0 || m.GossipNodes <= 0 || m.RetransmitMult <= 0 {
		return nil, fmt.Errorf("gossip: Config.Tune sets GossipInterval to %v, GossipNodes to %d, "+
			"RetransmitMult to %d, want more than 0", m.GossipInterval, m.GossipNodes, m.RetransmitMult)
	}
	return m, nil
}
