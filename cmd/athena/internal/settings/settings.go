// SPDX-License-Identifier: Apache-2.0

// Package settings reads and checks the configuration of a node from flags, ATHENA_ variables
// and the --config file, and records the origin of each value.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/tlsfiles"
	"github.com/athena-go/athena/member"
)

// The values of --transport.
const (
	TransportQUIC = "quic"
	TransportTLS  = "tls"
)

// ConfigFlag is the flag for the configuration file. It is not a key of that file.
const ConfigFlag = "config"

// Settings holds the flags of athena run.
type Settings struct {
	file            string         // the configuration file
	groups          []fileGroup    // the groups in file
	config          cluster.Config // fields set directly by flags
	profile         string
	secretFile      string
	otherSecretFile string
	otherTimings    string
	adminSettings
	FlightRecorder string
	Transport      string
	LogFormat      string
	LogLevel       string
}

// profiles are the values of --profile.
var profiles = map[string]func() cluster.Config{
	"local":   cluster.LocalConfig,
	"lan":     cluster.DefaultConfig,
	"wan":     cluster.WANConfig,
	"classic": cluster.ClassicConfig,
}

// Flags returns a new set with the flags of athena run.
func Flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	new(Settings).Define(f)
	return f
}

// Define adds the flags of s to f.
func (s *Settings) Define(f *pflag.FlagSet) {
	c := &s.config
	f.StringVar(&s.file, ConfigFlag, "",
		"YAML `file` with values for these flags; see athena help config")
	f.StringVar(&c.Addr, "addr", "", "host:port to listen on")
	f.StringVar(&c.Advertise, "advertise", "",
		"host:port at which other nodes reach this node; its identity (default --addr)")
	f.StringVar(&c.Name, "name", "", "display name (default --advertise)")
	f.StringVar(&c.Cluster, "cluster", cluster.DefaultCluster, "name of the cluster")
	f.Var(decimal{&c.Size}, "size", "number of members of the full cluster, the same on every node")
	f.Var(seedList{&c.Seeds}, "seeds",
		"`host:port,...` to join through, or srv:NAME of DNS SRV records; the same on every node")
	f.Var(preference{&c.Preference}, "preference",
		"0 to 100: the greatest is elected first; never: the node only votes")
	f.DurationVar(&c.HandOverToPreferred, "hand-over-to-preferred", 0,
		"how long a more preferred node is active before the leader hands over to it; 0 disables this")
	f.DurationVar(&c.SeatTimeout, "seat-timeout", cluster.DefaultSeatTimeout,
		"how long this node, as the leader, keeps the seat of a lost member for it")
	f.Var(labelList{&c.Labels}, "label",
		"`KEY=VALUE,...` that describe this node to the others")
	f.BoolVar(&c.TrustRefusal, "trust-refusal", false,
		"elect a new leader as soon as the host of the old one refuses its port; "+
			"unsafe behind a proxy, NAT or firewall that refuses ports")
	f.BoolVar(&c.JoinOnly, "join-only", false,
		"join an existing cluster, never form one: for new nodes, and seeds that lost their disk")
	f.StringVar(&c.DataDir, "data-dir", "", "directory for the state of the node "+
		"(default athena/CLUSTER@ADDRESS in the user's state directory)")
	f.BoolVar(&c.Memory, "memory", false, "keep the state in memory only, instead of in --data-dir")
	f.StringVar(&s.Transport, "transport", TransportQUIC,
		"quic, or tls for TLS on TCP where UDP is blocked; the same on every node")
	f.StringVar(&s.secretFile, "secret-file", "",
		"file with the secret that all nodes share, mode 0600; trailing newlines are ignored")
	f.StringVar(&s.otherSecretFile, "other-secret-file", "",
		"file with a second accepted secret, to change the secret node by node")
	f.StringVar(&c.TLSCA, "tls-ca", "",
		"PEM file with the CA certificates of the nodes; use with --tls-cert and --tls-key, "+
			"instead of a secret")
	f.StringVar(&c.TLSCert, "tls-cert", "",
		"PEM file with the certificate of this node, valid for the host of --advertise")
	f.StringVar(&c.TLSKey, "tls-key", "", "PEM file with the private key of --tls-cert, mode 0600")
	f.StringVar(&c.TLSSPIFFE, "tls-spiffe", "",
		"SPIFFE ID that the certificate of each node has, instead of a host")
	f.BoolVar(&c.Insecure, "insecure", false,
		"run without a secret or certificate, on loopback addresses only")
	f.BoolVar(&c.InsecureAnywhere, "insecure-anywhere", false,
		"run without a secret or certificate on any address")
	f.StringVar(&s.profile, "profile", "lan", "set of timings: local, lan, wan or classic")
	for _, t := range Timings(c) {
		f.DurationVar(t.Value, t.Flag, 0, t.Use+" (default of --profile)")
	}
	f.StringVar(&s.otherTimings, "other-timings", "",
		"second accepted timings, to change them node by node: a profile, then KEY=DURATION,...")
	s.adminSettings.define(f)
	f.StringVar(&s.FlightRecorder, "flight-recorder", "",
		"`directory` for runtime traces (go tool trace), written when this node loses its leadership; "+
			"unset disables them")
	f.StringVar(&s.LogFormat, "log-format", "console", "json or console")
	f.StringVar(&s.LogLevel, "log-level", "info", "debug, info, warn or error")
}

// decimal is an int flag that parses 010 as ten; pflag's own int flags parse it as octal.
type decimal struct{ value *int }

// Set implements pflag.Value.
func (d decimal) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return err // wantedValues replaces this text
	}
	*d.value = n
	return nil
}

// String implements pflag.Value.
func (d decimal) String() string {
	if d.value == nil {
		return "0"
	}
	return strconv.Itoa(*d.value)
}

// Type implements pflag.Value.
func (decimal) Type() string { return "int" }

// preference is the value of --preference.
type preference struct{ value *member.Preference }

// Set implements pflag.Value.
func (p preference) Set(text string) error {
	n, err := member.ParsePreference(text)
	if err != nil {
		return errors.New("must be never, or 0 to 100")
	}
	*p.value = n
	return nil
}

// String implements pflag.Value.
func (p preference) String() string {
	if p.value == nil {
		return "0"
	}
	return p.value.String()
}

// Type implements pflag.Value.
func (preference) Type() string { return "preference" }

// labelList is the value of --label. Repeating the flag adds labels.
type labelList struct{ labels *map[string]string }

// Set implements pflag.Value.
func (l labelList) Set(text string) error {
	for label := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(label) == "" {
			continue
		}
		key, value, ok := strings.Cut(strings.TrimSpace(label), "=")
		if !ok {
			return errors.New("must be KEY=VALUE")
		}
		if *l.labels == nil {
			*l.labels = map[string]string{}
		}
		(*l.labels)[key] = value
	}
	return nil
}

// String implements pflag.Value.
func (l labelList) String() string {
	if l.labels == nil {
		return ""
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(*l.labels)) {
		all = append(all, key+"="+(*l.labels)[key])
	}
	return strings.Join(all, ",")
}

// Type implements pflag.Value.
func (labelList) Type() string { return "labels" }

// seedList is the value of --seeds. Repeating the flag adds to the list.
type seedList struct{ seeds *[]string }

// Set implements pflag.Value.
func (l seedList) Set(text string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	var seeds []string
	for seed := range strings.SplitSeq(text, ",") {
		seed = strings.TrimSpace(seed)
		if strings.ContainsFunc(seed, unicode.IsSpace) {
			return errors.New("separate seeds by commas")
		}
		seeds = append(seeds, seed)
	}
	*l.seeds = append(*l.seeds, seeds...)
	return nil
}

// String implements pflag.Value.
func (l seedList) String() string { return strings.Join(*l.seeds, ",") }

// Type implements pflag.Value.
func (l seedList) Type() string { return "seeds" }

// Timing is a timing in a cluster.Config and its flag.
type Timing struct {
	Flag  string
	Value *time.Duration
	Use   string
}

// Timings returns the timings of c with their flags.
func Timings(c *cluster.Config) []Timing {
	return []Timing{
		{"heartbeat-interval", &c.HeartbeatInterval, "time between keep-alives"},
		{"heartbeat-timeout", &c.HeartbeatTimeout, "silence after which a member counts as unreachable"},
		{"leader-timeout", &c.LeaderTimeout, "silence after which followers elect a new leader"},
		{"lease-timeout", &c.LeaseTimeout,
			"time for which a follower votes for no other node after answering the leader"},
		{"ttl-timeout", &c.TTLTimeout, "silence after which a member is removed"},
		{"retry-interval", &c.RetryInterval, "time between attempts to join"},
	}
}

// Read adds the variables and the file to the command-line flags f and returns the resulting
// configuration. The error is a cli.UsageError that contains every fault and its place. Read
// changes nothing except s and f.
func (s *Settings) Read(f *pflag.FlagSet, getenv func(string) string) (cluster.Config, error) {
	found := &faults{flags: f}
	found.addAll(readVariables(f, getenv, Settable(Flags()))...)
	if s.file != "" {
		s.readFile(found)
	}
	if found.isBroken(ConfigFlag) {
		return s.config, found.joinedErr() // other faults may be consequences
	}
	c := s.resolveConfig(found)
	return c, found.joinedErr()
}

// Reread reads the configuration again, with the flags that the command line has set in given. The
// other results are like those of a process that starts now.
func Reread(given *pflag.FlagSet, getenv func(string) string) (
	*Settings, *pflag.FlagSet, cluster.Config, error,
) {
	s, f := new(Settings), pflag.NewFlagSet("run", pflag.ContinueOnError)
	s.Define(f)
	var err error
	f.VisitAll(func(flag *pflag.Flag) {
		if originOf(given, flag.Name).from == "flag" && err == nil {
			err = f.Set(flag.Name, given.Lookup(flag.Name).Value.String())
		}
	})
	if err != nil {
		return nil, nil, cluster.Config{}, err // impossible: given has accepted the value
	}
	c, err := s.Read(f, getenv)
	return s, f, c, err
}

// readFile adds the values of the file to the flags.
func (s *Settings) readFile(found *faults) {
	content, err := fileContent(s.file)
	if err != nil {
		found.addAll(fault{ConfigFlag, fmt.Errorf("%s: %w", Given(found.flags, ConfigFlag), err)})
		return
	}
	p := parseFile(s.file, content)
	for i, one := range p.faults {
		if one.flag != ConfigFlag && found.flags.Changed(one.flag) {
			p.faults[i].flag = "" // a flag or variable overrides the value
		}
	}
	found.addAll(p.faults...)
	if err := fromFile(found.flags, s.file, p.values); err != nil {
		found.addAll(fault{ConfigFlag, err})
	}
	s.groups = p.groups
	for _, g := range p.groups {
		checkGroup(g, found)
	}
}

// resolveConfig returns the configuration of the node and adds any faults to the given ones.
func (s *Settings) resolveConfig(found *faults) cluster.Config {
	c := s.config
	f := found.flags
	profile, known := profiles[s.profile]
	found.checkThat(known, "profile", " %q: must be local, lan, wan or classic", s.profile)
	if known {
		defaults := profile()
		from := Timings(&defaults)
		for i, t := range Timings(&c) {
			found.checkThat(!f.Changed(t.Flag) || *t.Value != 0, t.Flag, " 0s: must be positive")
			*t.Value = cmp.Or(*t.Value, *from[i].Value)
		}
	}
	if s.otherTimings != "" {
		other, err := parseTimings(s.otherTimings)
		found.checkThat(err == nil, "other-timings", " %q: %w", s.otherTimings, err)
		if err == nil {
			c.OtherTimings = &other
		}
	}
	found.checkThat(slices.Contains([]string{TransportQUIC, TransportTLS}, s.Transport), "transport",
		" %q: must be quic or tls", s.Transport)
	found.checkThat(slices.Contains([]string{"json", "console"}, s.LogFormat), "log-format",
		" %q: must be json or console", s.LogFormat)
	found.checkThat(slices.Contains([]string{"debug", "info", "warn", "error"}, s.LogLevel),
		"log-level",
		" %q: must be debug, info, warn or error", s.LogLevel)
	s.readAdmin(found)
	s.readSecrets(&c, found)
	found.addInvalid(c.Validate())
	if len(found.list) == 0 && !c.Memory && c.DataDir == "" {
		var err error
		c.DataDir, err = defaultDataDir(c)
		found.checkThat(err == nil, "data-dir", ": name one, or use --memory: %w", err)
	}
	return c
}

// parseTimings parses a profile and timings that differ from it, such as
// local,leader-timeout=300ms. Without a profile they differ from lan.
func parseTimings(text string) (cluster.Config, error) {
	c := cluster.DefaultConfig()
	for i, part := range strings.Split(text, ",") {
		flag, value, isTiming := strings.Cut(part, "=")
		if profile, known := profiles[part]; known && i == 0 {
			c = profile()
			continue
		}
		timings := Timings(&c)
		at := slices.IndexFunc(timings, func(t Timing) bool { return t.Flag == flag })
		if !isTiming || at < 0 {
			return c, fmt.Errorf("%q: must be local, lan, wan or classic at first, or KEY=DURATION with "+
				"the key of a timing", part)
		}
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return c, fmt.Errorf("%q: must be a positive duration such as 500ms", part)
		}
		*timings[at].Value = d
	}
	return c, nil
}

// readSecrets reads the secret files into c, and checks that the node has exactly one kind of
// authentication.
func (s *Settings) readSecrets(c *cluster.Config, found *faults) {
	f := found.flags
	open := "insecure"
	if !c.Insecure {
		open = "insecure-anywhere"
	}
	insecure := c.Insecure || c.InsecureAnywhere
	contradicts := func(one, other, value string) {
		found.checkThat(false, one, " contradicts %s%s: remove one of them", alsoGiven(f, other),
			value)
	}
	before, unknown := len(found.list), found.isBroken("secret-file", "insecure", "insecure-anywhere",
		"tls-ca", "tls-cert", "tls-key")
	switch {
	case s.secretFile != "" && s.hasFiles():
		contradicts("tls-cert", "secret-file", " "+s.secretFile)
	case s.secretFile != "" && insecure:
		contradicts(open, "secret-file", " "+s.secretFile)
	case s.hasFiles() && c.InsecureAnywhere && !c.Insecure: // Validate reports --insecure
		contradicts(open, "tls-cert", "")
	case s.secretFile == "" && !insecure && !s.hasFiles():
		found.checkThat(unknown, "secret-file",
			": no secret: set it to a file with the secret of the cluster (created by "+
				"athena secret new FILE), or set --tls-ca, --tls-cert and --tls-key, or --insecure")
	case s.secretFile != "":
		var err error
		c.Secret, err = tlsfiles.ReadSecret(s.secretFile)
		found.checkThat(err == nil, "secret-file", ": %w", err)
	}
	if len(found.list) > before || unknown {
		c.InsecureAnywhere = !s.hasFiles() // so that Validate does not report the fault again
		return
	}
	if s.otherSecretFile != "" {
		var err error
		c.OtherSecret, err = tlsfiles.ReadSecret(s.otherSecretFile)
		found.checkThat(err == nil, "other-secret-file", ": %w", err)
	}
}

// hasFiles reports whether any TLS file is set.
func (s *Settings) hasFiles() bool {
	return s.config.TLSCA != "" || s.config.TLSCert != "" || s.config.TLSKey != ""
}

// defaultDataDir returns the default of --data-dir. It does not depend on the working directory: a
// node that is restarted in another directory would get an empty store and lose its votes.
func defaultDataDir(c cluster.Config) (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		base = filepath.Join(home, ".local", "state")
	}
	c = c.WithDefaults()
	// Both parts are escaped, so they cannot contain a path separator.
	node := url.PathEscape(c.Cluster) + "@" + strings.ReplaceAll(url.PathEscape(c.Advertise), ":", "_")
	return filepath.Join(base, "athena", node), nil
}
