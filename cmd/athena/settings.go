// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cluster"
)

// adminOff is the --admin of a node that nobody can ask.
const adminOff = "off"

// settings are the flags of run.
type settings struct {
	config          cluster.Config // what flags set directly
	profile         string
	secretFile      string
	otherSecretFile string
	memory          bool
	admin           string
	logFormat       string
	logLevel        string
}

// profiles are the values of --profile.
var profiles = map[string]func() cluster.Config{
	"local":   cluster.LocalConfig,
	"lan":     cluster.DefaultConfig,
	"wan":     cluster.WANConfig,
	"classic": cluster.ClassicConfig,
}

func (s *settings) define(f *pflag.FlagSet) {
	c := &s.config
	f.StringVar(&c.Addr, "addr", "", "host:port to listen on")
	f.StringVar(&c.Advertise, "advertise", "",
		"host:port by which the others reach this node, its identity (default --addr)")
	f.StringVar(&c.Name, "name", "", "name shown to people (default --advertise)")
	f.StringVar(&c.Cluster, "cluster", cluster.DefaultCluster, "name of the cluster")
	f.IntVar(&c.Size, "size", 0, "number of members of the full cluster, the same on every node")
	f.Var(seedList{&c.Seeds}, "seeds",
		"`host:port,...` of each entry point, the same list on every node")
	f.BoolVar(&c.TrustRefusal, "trust-refusal", false,
		"elect at once when the host of a leader refuses its port;\n"+
			"only where no proxy, NAT or firewall refuses ports in its place")
	f.BoolVar(&c.JoinOnly, "join-only", false,
		"never found a cluster: for a seed that lost its disk, where nobody leads, until it has joined")
	f.StringVar(&c.DataDir, "data-dir", "", "directory for what the node must remember "+
		"(default athena/CLUSTER@ADDRESS in the user's state directory)")
	f.BoolVar(&s.memory, "memory", false, "remember nothing over a restart, in place of --data-dir")
	f.StringVar(&s.secretFile, "secret-file", "",
		"file with the secret that all nodes share, mode 0600; line ends at its end do not count")
	f.StringVar(&s.otherSecretFile, "other-secret-file", "",
		"file with a secret that is accepted too, to change the secret node by node")
	f.StringVar(&c.TLSCA, "tls-ca", "",
		"file with the authorities that nodes have certificates from,\n"+
			"in PEM as the next two; the three stand in the place of a secret")
	f.StringVar(&c.TLSCert, "tls-cert", "",
		"file with the certificate of this node, which names the host of --advertise")
	f.StringVar(&c.TLSKey, "tls-key", "", "file with its private key, mode 0600")
	f.BoolVar(&c.Insecure, "insecure", false,
		"run without a secret or certificate, on loopback addresses")
	f.BoolVar(&c.InsecureAnywhere, "insecure-anywhere", false,
		"run without a secret or certificate on any address")
	f.StringVar(&s.profile, "profile", "lan", "timings: local, lan, wan or classic")
	for _, t := range timings(c) {
		f.DurationVar(t.value, t.flag, 0, t.use+" (default of --profile)")
	}
	f.StringVar(&s.admin, "admin", adminOff, "admin API: host:port on loopback, unix:PATH or off")
	f.StringVar(&s.logFormat, "log-format", "console", "json or console")
	f.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
}

// seedList is the value of --seeds. Who repeats the flag adds to the list.
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
			return errors.New("seeds are separated by commas")
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

// timing is a timing of a Config and its flag.
type timing struct {
	flag  string
	value *time.Duration
	use   string
}

func timings(c *cluster.Config) []timing {
	return []timing{
		{"heartbeat-interval", &c.HeartbeatInterval, "time between keep-alives"},
		{"heartbeat-timeout", &c.HeartbeatTimeout, "silence after which a member is unreachable"},
		{"leader-timeout", &c.LeaderTimeout, "silence after which the leader is lost"},
		{"lease-timeout", &c.LeaseTimeout, "how long an answer of a leader binds a follower to it"},
		{"ttl-timeout", &c.TTLTimeout, "silence after which a member is removed"},
		{"retry-interval", &c.RetryInterval, "time between attempts to join"},
	}
}

// read adds the variables to the flags of a command line, and resolves both.
func (s *settings) read(f *pflag.FlagSet) (cluster.Config, error) {
	if err := fromEnvironment(f, os.Getenv); err != nil {
		return cluster.Config{}, err
	}
	return s.resolve(f)
}

// resolve returns the configuration of the node. An error names every fault,
// and is a usageError: nothing was touched yet.
func (s *settings) resolve(f *pflag.FlagSet) (cluster.Config, error) {
	c := s.config
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	profile, known := profiles[s.profile]
	check(known, "%s %q: must be local, lan, wan or classic", given(f, "profile"), s.profile)
	if known {
		defaults := profile()
		from := timings(&defaults)
		for i, t := range timings(&c) {
			check(!f.Changed(t.flag) || *t.value != 0, "%s 0s: must be positive", given(f, t.flag))
			*t.value = cmp.Or(*t.value, *from[i].value)
		}
	}
	check(slices.Contains([]string{"json", "console"}, s.logFormat),
		"%s %q: must be json or console", given(f, "log-format"), s.logFormat)
	check(slices.Contains([]string{"debug", "info", "warn", "error"}, s.logLevel),
		"%s %q: must be debug, info, warn or error", given(f, "log-level"), s.logLevel)
	if s.admin != adminOff {
		if err := admin.CheckListen(s.admin); err != nil {
			check(false, "%s: %w; or off", given(f, "admin"), err)
		}
	}
	var err error
	if c.Secret, err = s.secret(f); err != nil {
		faults = append(faults, err)
		c.InsecureAnywhere = !s.hasFiles() // so that Validate does not tell it again
	} else if s.otherSecretFile != "" {
		c.OtherSecret, err = cluster.ReadSecret(s.otherSecretFile)
		check(err == nil, "%s: %w", given(f, "other-secret-file"), err)
	}
	check(!s.memory || c.DataDir == "", "%s contradicts %s %s: leave one of them out",
		given(f, "memory"), given(f, "data-dir"), c.DataDir)
	if err := c.Validate(); err != nil {
		faults = append(faults, flagError{err, f})
	}
	if len(faults) == 0 && !s.memory && c.DataDir == "" {
		c.DataDir, err = defaultDataDir(c)
		check(err == nil, "--data-dir: name one, or use --memory: %w", err)
	}
	if len(faults) > 0 {
		return c, usageError{errors.Join(faults...)}
	}
	return c, nil
}

// secret reads the secret, where the node is to have one.
func (s *settings) secret(f *pflag.FlagSet) ([]byte, error) {
	insecure := s.config.Insecure || s.config.InsecureAnywhere
	open := "insecure"
	if !s.config.Insecure {
		open = "insecure-anywhere"
	}
	contradicts := func(one string) error {
		return fmt.Errorf("%s contradicts %s %s: leave one of them out",
			given(f, one), given(f, "secret-file"), s.secretFile)
	}
	switch {
	case s.secretFile != "" && s.hasFiles():
		return nil, contradicts("tls-cert")
	case s.secretFile != "" && insecure:
		return nil, contradicts(open)
	case s.hasFiles() && s.config.InsecureAnywhere && !s.config.Insecure: // Validate tells the other
		return nil, fmt.Errorf("%s contradicts --tls-cert: leave one of them out", given(f, open))
	case s.secretFile == "" && (insecure || s.hasFiles()):
		return nil, nil
	case s.secretFile == "":
		return nil, errors.New("no secret: name a file that holds one with --secret-file, " +
			"the same on every node, or certificates with --tls-ca, --tls-cert and --tls-key, " +
			"or say --insecure")
	}
	secret, err := cluster.ReadSecret(s.secretFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", given(f, "secret-file"), err)
	}
	return secret, nil
}

// hasFiles reports whether certificates come from files.
func (s *settings) hasFiles() bool {
	return s.config.TLSCA != "" || s.config.TLSCert != "" || s.config.TLSKey != ""
}

// defaultDataDir is the same wherever the node is started from: one that is
// started in another folder and finds no store has forgotten its votes.
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
	// Escaped, neither part can lead out of the folder.
	node := url.PathEscape(c.Cluster) + "@" + strings.ReplaceAll(url.PathEscape(c.Advertise), ":", "_")
	return filepath.Join(base, "athena", node), nil
}
