// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/tlsfiles"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport/quicnet"
)

// Limits and defaults of Config.
const (
	// MaxSize is the largest Size.
	MaxSize = member.MaxMembers
	// MinSecretBytes is the minimum number of random bytes of a secret.
	MinSecretBytes = quicnet.MinSecretBytes
	// DefaultCluster is the default of Cluster.
	DefaultCluster = "athena"
	// DefaultSeatTimeout is the default of SeatTimeout.
	DefaultSeatTimeout = 24 * time.Hour
)

// settings is a valid Config, in the types of the protocol.
type settings struct {
	Config  // with defaults
	self    member.Address
	seeds   []member.Address // sorted; those of SRV records are known after findSeeds
	labels  member.Labels
	timings message.Timings
	// otherTimings are those of OtherTimings; zero for none, or for the same.
	otherTimings message.Timings
}

// WithDefaults returns the configuration with all defaults filled in.
func (c Config) WithDefaults() Config {
	c.Advertise = cmp.Or(c.Advertise, c.Addr)
	cut := c.Advertise[:min(len(c.Advertise), member.MaxNameBytes)]
	c.Name = cmp.Or(c.Name, strings.ToValidUTF8(cut, ""))
	c.Cluster = cmp.Or(c.Cluster, DefaultCluster)
	if c.Size == 1 && len(c.Seeds) == 0 {
		c.Seeds = []string{c.Advertise}
	}
	if !c.hasSecret() && !c.tlsFiles().Used() && (c.InsecureAnywhere || c.onLoopback()) {
		c.Insecure = true
	}
	c.SeatTimeout = cmp.Or(c.SeatTimeout, DefaultSeatTimeout)
	d := DefaultConfig()
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, d.HeartbeatInterval)
	c.HeartbeatTimeout = cmp.Or(c.HeartbeatTimeout, d.HeartbeatTimeout)
	c.LeaderTimeout = cmp.Or(c.LeaderTimeout, d.LeaderTimeout)
	c.LeaseTimeout = cmp.Or(c.LeaseTimeout, defaultLease(c.HeartbeatInterval, c.LeaderTimeout))
	c.TTLTimeout = cmp.Or(c.TTLTimeout, d.TTLTimeout)
	c.RetryInterval = cmp.Or(c.RetryInterval, d.RetryInterval)
	return c
}

// defaultLease returns 0.7 x LeaderTimeout: the shortest lease that survives every pause of a
// process below half of LeaderTimeout (docs/performance.md). If that time is too short for 3.5
// heartbeats, it returns more, but at most LeaderTimeout.
func defaultLease(interval, leader time.Duration) time.Duration {
	return min(max(leader/10*7, interval/2*7), leader)
}

// Validate returns every fault of the configuration as a *FieldError, joined by errors.Join. It
// reads SecretFile and the TLS files, but no other files.
func (c Config) Validate() error {
	_, err := c.parse()
	return err
}

func (c Config) parse() (settings, error) {
	s := settings{Config: c.WithDefaults()}
	var faults faults
	faults.checkAddr(s.Addr)
	s.self = faults.checkAdvertise(s.Advertise, c.Advertise != "")
	srv, isSRV := c.srvName()
	switch {
	case c.Size == 1 && len(c.Seeds) == 0:
		s.seeds = []member.Address{s.self}
	case isSRV:
		faults.checkSRV(s.Seeds, srv, s.self)
	default:
		s.seeds = faults.checkSeeds(s.Seeds, s.Size)
	}
	faults.Check(s.Size != 0, "Size",
		"is required: the number of members of the full cluster, the same on every node")
	faults.Check(s.Size >= 0 && s.Size <= MaxSize, "Size",
		"%d: must be between 1 and %d, the same on every node", s.Size, MaxSize)
	faults.Check(s.Name == "" || len(s.Name) <= member.MaxNameBytes && member.IsPrintable(s.Name),
		"Name", "%.200q: must have at most %d printable characters", s.Name, member.MaxNameBytes)
	faults.Check(len(s.Cluster) <= member.MaxClusterBytes && member.IsPrintable(s.Cluster),
		"Cluster", "%.300q: must have at most %d printable characters",
		s.Cluster, member.MaxClusterBytes)
	faults.Check(!s.Memory || s.DataDir == "", "Memory",
		"contradicts %s %q: leave one of them out", field("DataDir"), s.DataDir)
	faults.Add("Preference", checkPreference(s.Preference, s.Size))
	var err error
	s.labels, err = member.NewLabels(s.Labels)
	faults.Add("Labels", err)
	faults.Check(s.HandOverToPreferred == 0 || s.HandOverToPreferred >= s.LeaderTimeout,
		"HandOverToPreferred", "%v: must be at least %s (%v), or 0 for never",
		s.HandOverToPreferred, field("LeaderTimeout"), s.LeaderTimeout)
	faults.Check(s.SeatTimeout > 0, "SeatTimeout", "%v: must be positive", s.SeatTimeout)
	faults.readSecret(&s.Config)
	faults.checkSecurity(s.Config, s.self)
	s.checkTimings(&faults)
	if s.Receiver != nil {
		faults.Add("Receiver", s.Receiver.Validate(localEvents))
	}
	if err := faults.joined(); err != nil {
		return settings{}, fmt.Errorf("cluster: invalid configuration:\n%w", err)
	}
	return s, nil
}

// OmitsSelf reports whether Seeds names as many nodes as the cluster has members, but not this
// node. Unless this node replaces one of them, Advertise or Seeds is wrong. OmitsSelf returns false
// if the configuration is invalid or Seeds comes from DNS.
func (c Config) OmitsSelf() bool {
	s, err := c.parse()
	return err == nil && s.omitsSelf()
}

func (s settings) omitsSelf() bool {
	return len(s.seeds) == s.Size && !slices.Contains(s.seeds, s.self)
}

// checkTimings sets the timings and checks them.
func (s *settings) checkTimings(faults *faults) {
	s.timings = s.protocolTimings()
	err := s.timings.Validate()
	if err != nil {
		faults.List = append(faults.List, err)
	}
	if s.OtherTimings == nil {
		return
	}
	other := s.OtherTimings.WithDefaults().protocolTimings()
	if otherErr := other.Validate(); otherErr != nil {
		faults.Add("OtherTimings", errors.New(strings.ReplaceAll(otherErr.Error(), "\n", "; ")))
		return
	}
	if other == s.timings || err != nil {
		return
	}
	if err := s.timings.ValidateOther(other); err != nil {
		faults.List = append(faults.List, err)
	}
	s.otherTimings = other
}

// protocolTimings returns the timings in the type of the protocol.
func (c Config) protocolTimings() message.Timings {
	return message.Timings{
		HeartbeatInterval: c.HeartbeatInterval,
		HeartbeatTimeout:  c.HeartbeatTimeout,
		LeaderTimeout:     c.LeaderTimeout,
		LeaseTimeout:      c.LeaseTimeout,
		TTLTimeout:        c.TTLTimeout,
		RetryInterval:     c.RetryInterval,
	}
}

// checkPreference returns an error if the preference is invalid in a cluster of the given size.
func checkPreference(p member.Preference, size int) error {
	switch {
	case !p.IsValid():
		return fmt.Errorf("%d: must be %v, or 0 to %d", p, member.NeverLeads, member.MaxPreference)
	case p == member.NeverLeads && size == 1:
		return fmt.Errorf("%v: the only member of a cluster must lead", p)
	}
	return nil
}

// checkAddr accepts an address without a host, which means all addresses of this machine.
func (f *faults) checkAddr(addr string) {
	if addr == "" {
		f.Check(false, "Addr", "is required: the host:port to listen on")
		return
	}
	host, port, err := net.SplitHostPort(addr)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || n == 0 {
		f.Check(false, "Addr", "%q: must be host:port with a port from 1 to 65535", addr)
		return
	}
	_, err = member.ParseAddress(addr)
	f.Check(host == "" || err == nil, "Addr", "%q: %w", addr, err)
}

// checkAdvertise returns the parsed address, which must name one machine. explicit reports whether
// Advertise was configured. If not, addr is Addr, and checkAddr has reported its other faults.
func (f *faults) checkAdvertise(addr string, explicit bool) member.Address {
	a, err := member.ParseAddress(addr)
	host, _, splitErr := net.SplitHostPort(addr)
	ip, ipErr := netip.ParseAddr(host)
	everywhere := splitErr == nil && (host == "" || ipErr == nil && ip.Unmap().IsUnspecified())
	switch {
	case everywhere && !explicit:
		f.Check(false, "Addr", "%q: means every address of this machine: set %s to the host:port "+
			"at which the others reach this node", addr, field("Advertise"))
	case everywhere, ipErr == nil && ip.Unmap().IsMulticast():
		f.Check(false, "Advertise", "%q: must be the host:port at which the others reach this node", addr)
	case explicit && err != nil:
		f.Check(false, "Advertise", "%q: %w", addr, err)
	}
	f.Check(!hasZone(a), "Advertise", "%q: %s", a, zoneAdvice)
	f.Check(!a.IsObserver(), "Advertise", "%q: must not be the address of an observer", addr)
	return a
}

const zoneAdvice = "names an interface of one machine: use a name, or an address of another scope"

// hasZone reports whether a has an interface, as in fe80::1%eth0. Interfaces have other names on
// other machines.
func hasZone(a member.Address) bool {
	ip, err := netip.ParseAddr(a.Host)
	return err == nil && ip.Zone() != ""
}

func (f *faults) checkSeeds(list []string, size int) []member.Address {
	f.Check(len(list) > 0, "Seeds",
		"is required: list at least one host:port, the same on every node")
	f.Check(size < 1 || len(list) <= size, "Seeds", "has %d entries, but %s is %d: list at most %d",
		len(list), field("Size"), size, size)
	var seeds []member.Address
	for i, s := range list {
		a, err := member.ParseAddress(s)
		if err != nil {
			f.CheckElement(false, "Seeds", i, "%q: %w", s, err)
			continue
		}
		f.CheckElement(!slices.Contains(seeds, a), "Seeds", i, "%q: listed twice", s)
		f.CheckElement(!hasZone(a), "Seeds", i, "%q: %s", s, zoneAdvice)
		seeds = append(seeds, a)
	}
	slices.SortFunc(seeds, member.Address.Compare)
	return seeds
}

// srvPrefix begins a seed that stands for the targets of DNS SRV records. The name that follows it
// begins with an underscore, so that a host may be called srv.
const srvPrefix = "srv:"

// srvName returns the name of the SRV records if the seeds come from DNS.
func (c Config) srvName() (name string, ok bool) {
	for _, seed := range c.Seeds {
		if name, ok = strings.CutPrefix(seed, srvPrefix); ok && strings.HasPrefix(name, "_") {
			return name, true
		}
	}
	return "", false
}

// checkSRV requires a valid name of SRV records and no other seed, so that the records alone
// determine the number of seeds. The address of the node must have the case of lookUpTargets.
func (f *faults) checkSRV(list []string, name string, self member.Address) {
	f.Check(len(list) == 1, "Seeds", "has %d entries: %s%s must be the only one",
		len(list), srvPrefix, name)
	valid := member.Address{Host: name, Port: 1}.IsValid() && !strings.Contains(name, ":")
	f.Check(valid, "Seeds", "%.300q: must be a DNS name, such as srv:_athena._udp.example.org",
		srvPrefix+name)
	f.Check(self.Host == strings.ToLower(self.Host), "Advertise",
		"%q: must be in lower case, as the targets of SRV records are compared", self)
}

// readSecret sets Secret from SecretFile.
func (f *faults) readSecret(c *Config) {
	switch {
	case c.SecretFile == "":
	case len(c.Secret) > 0:
		f.Check(false, "SecretFile", "contradicts %s: leave one of them out", field("Secret"))
	default:
		var err error
		c.Secret, err = tlsfiles.ReadSecret(c.SecretFile)
		f.Check(err == nil, "SecretFile", "%w", err)
	}
}

// hasSecret reports whether a secret or its file is set.
func (c Config) hasSecret() bool { return len(c.Secret) > 0 || c.SecretFile != "" }

func (f *faults) checkSecurity(c Config, self member.Address) {
	secret, files, name := c.hasSecret(), c.tlsFiles().Used(), "Secret"
	if c.SecretFile != "" {
		name = "SecretFile"
	}
	if files {
		f.Check(!secret, name, "contradicts %s: leave one of them out", field("TLSCert"))
		f.Check(!c.Insecure, "Insecure", "true: contradicts %s; leave one of them out", field("TLSCert"))
		id := tlsfiles.Identity{Cluster: c.Cluster, Self: self}
		f.List = append(f.List, c.tlsFiles().Check(id, time.Now())...)
	}
	f.Check(c.TLSSPIFFE == "" || files, "TLSSPIFFE", "is set, but %s is not: set both, or neither",
		field("TLSCert"))
	f.Check(isSPIFFE(c.TLSSPIFFE), "TLSSPIFFE",
		"%q: must be a SPIFFE ID, such as spiffe://example.org/athena", c.TLSSPIFFE)
	f.checkSecret("Secret", c.Secret)
	f.checkSecret("OtherSecret", c.OtherSecret)
	f.Check(secret || len(c.OtherSecret) == 0, "OtherSecret",
		"is set, but %s is not: set both, or neither", field("Secret"))
	f.Check(!secret || !c.Insecure, "Insecure", "true: contradicts %s; leave one of them out",
		field(name))
	f.Check(secret || files || c.InsecureAnywhere || c.onLoopback(), "Secret",
		"is empty: set one, the same on every node, or %s, %s and %s; without them nodes run only "+
			"on loopback (or everywhere with %s, but then anyone who reaches the port can join)",
		field("TLSCA"), field("TLSCert"), field("TLSKey"), field("InsecureAnywhere"))
}

// isSPIFFE reports whether id is empty or a SPIFFE ID with a path.
func isSPIFFE(id string) bool {
	u, err := url.Parse(id)
	return id == "" || err == nil && u.Scheme == "spiffe" && u.Host != "" && len(u.Path) > 1 &&
		id == "spiffe://"+u.Host+path.Clean(u.Path) && !strings.Contains(u.Host, ":")
}

func (f *faults) checkSecret(name string, secret []byte) {
	if len(secret) == 0 {
		return
	}
	err := quicnet.CheckSecret(secret)
	f.Check(err == nil, name, "%w; make one with athena secret new or NewSecret", err)
}

// onLoopback reports whether all addresses are on this machine. It ignores invalid ones, since they
// are reported elsewhere.
func (c Config) onLoopback() bool {
	if _, ok := c.srvName(); ok {
		return false
	}
	for _, addr := range append([]string{c.Addr, c.Advertise}, c.Seeds...) {
		if addr == "" {
			continue // a default
		}
		host, _, err := net.SplitHostPort(addr)
		if _, bad := member.ParseAddress(addr); err != nil || bad != nil && host != "" {
			continue
		}
		ip, err := netip.ParseAddr(host)
		if host != "localhost" && (err != nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}
