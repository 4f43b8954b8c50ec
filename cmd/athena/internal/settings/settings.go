// SPDX-License-Identifier: Apache-2.0

// Package settings reads the configuration of a node: flags, ATHENA_ variables and the file
// of --config, checks it, and says where each value comes from.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
)

// AdminOff is the --admin of a node that nobody can ask.
const AdminOff = "off"

// ConfigFlag names the file of configuration. It is no key of that file.
const ConfigFlag = "config"

// Settings are the flags of run.
type Settings struct {
	file            string         // of configuration
	config          cluster.Config // what flags set directly
	profile         string
	secretFile      string
	otherSecretFile string
	Admin           string
	AdminWrite      bool
	adminTokenFile  string
	adminToken      *admin.Token // of that file, once it was read
	FlightRecorder  string
	LogFormat       string
	LogLevel        string
}

// profiles are the values of --profile.
var profiles = map[string]func() cluster.Config{
	"local":   cluster.LocalConfig,
	"lan":     cluster.DefaultConfig,
	"wan":     cluster.WANConfig,
	"classic": cluster.ClassicConfig,
}

// Flags are the flags of run, apart from any command line.
func Flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	new(Settings).Define(f)
	return f
}

// Define adds the flags of s.
func (s *Settings) Define(f *pflag.FlagSet) {
	c := &s.config
	f.StringVar(&s.file, ConfigFlag, "",
		"YAML `file` with values of these flags, as athena help config says; flags and variables win")
	f.StringVar(&c.Addr, "addr", "", "host:port to listen on")
	f.StringVar(&c.Advertise, "advertise", "",
		"host:port by which the others reach this node, its identity (default --addr)")
	f.StringVar(&c.Name, "name", "", "name shown to people (default --advertise)")
	f.StringVar(&c.Cluster, "cluster", cluster.DefaultCluster, "name of the cluster")
	f.Var(decimal{&c.Size}, "size", "number of members of the full cluster, the same on every node")
	f.Var(seedList{&c.Seeds}, "seeds",
		"`host:port,...` of each entry point, the same list on every node")
	f.BoolVar(&c.TrustRefusal, "trust-refusal", false,
		"elect at once when the host of a leader refuses its port; "+
			"only where no proxy, NAT or firewall refuses ports in its place")
	f.BoolVar(&c.JoinOnly, "join-only", false,
		"never found a cluster: for a seed that lost its disk, where nobody leads, until it has joined")
	f.StringVar(&c.DataDir, "data-dir", "", "directory for what the node must remember "+
		"(default athena/CLUSTER@ADDRESS in the user's state directory)")
	f.BoolVar(&c.Memory, "memory", false, "remember nothing over a restart, in place of --data-dir")
	f.StringVar(&s.secretFile, "secret-file", "",
		"file with the secret that all nodes share, mode 0600; line ends at its end do not count")
	f.StringVar(&s.otherSecretFile, "other-secret-file", "",
		"file with a secret that is accepted too, to change the secret node by node")
	f.StringVar(&c.TLSCA, "tls-ca", "",
		"file with the authorities that nodes have certificates from, "+
			"in PEM as the next two; the three stand in the place of a secret")
	f.StringVar(&c.TLSCert, "tls-cert", "",
		"file with the certificate of this node, which names the host of --advertise")
	f.StringVar(&c.TLSKey, "tls-key", "", "file with its private key, mode 0600")
	f.BoolVar(&c.Insecure, "insecure", false,
		"run without a secret or certificate, on loopback addresses")
	f.BoolVar(&c.InsecureAnywhere, "insecure-anywhere", false,
		"run without a secret or certificate on any address")
	f.StringVar(&s.profile, "profile", "lan", "timings: local, lan, wan or classic")
	for _, t := range Timings(c) {
		f.DurationVar(t.Value, t.Flag, 0, t.Use+" (default of --profile)")
	}
	f.StringVar(&s.Admin, "admin", AdminOff, "admin API: host:port, unix:PATH or off; what is not of "+
		"this machine alone needs --admin-token-file")
	f.BoolVar(&s.AdminWrite, "admin-write", false,
		"let the admin API act too: send, transfer, drain, leave, locks and jobs")
	f.StringVar(&s.adminTokenFile, "admin-token-file", "",
		"file with the token that the admin API wants, mode 0600, at least 16 characters")
	f.StringVar(&s.FlightRecorder, "flight-recorder", "",
		"`folder` for a trace of the seconds before this node loses its leadership (go tool trace); "+
			"nothing is recorded without one")
	f.StringVar(&s.LogFormat, "log-format", "console", "json or console")
	f.StringVar(&s.LogLevel, "log-level", "info", "debug, info, warn or error")
}

// decimal is a number in tens: 010 is ten, where Go's own flags take it for eight.
type decimal struct{ value *int }

// Set implements pflag.Value.
func (d decimal) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return err // whoever asks says it in words of its own
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

// Timing is a timing of a Config and its flag.
type Timing struct {
	Flag  string
	Value *time.Duration
	Use   string
}

// Timings returns the timings of c with their flags.
func Timings(c *cluster.Config) []Timing {
	return []Timing{
		{"heartbeat-interval", &c.HeartbeatInterval, "time between keep-alives"},
		{"heartbeat-timeout", &c.HeartbeatTimeout, "silence after which a member is unreachable"},
		{"leader-timeout", &c.LeaderTimeout, "silence after which the leader is lost"},
		{"lease-timeout", &c.LeaseTimeout, "how long an answer of a leader binds a follower to it"},
		{"ttl-timeout", &c.TTLTimeout, "silence after which a member is removed"},
		{"retry-interval", &c.RetryInterval, "time between attempts to join"},
	}
}

// Read adds the variables and the file to the flags of a command line, resolves
// all, and returns the configuration of the node. An error names every fault and
// where it is, and is a usageError: nothing was touched yet.
func (s *Settings) Read(f *pflag.FlagSet, getenv func(string) string) (cluster.Config, error) {
	found := &faults{flags: f}
	found.addAll(readVariables(f, getenv, Settable(Flags()))...)
	if s.file != "" {
		s.readFile(found)
	}
	if found.isBroken(ConfigFlag) {
		return s.config, found.joinedErr() // what else is wrong may follow from that
	}
	c := s.resolveConfig(found)
	return c, found.joinedErr()
}

// readFile adds the file to the flags.
func (s *Settings) readFile(found *faults) {
	content, err := fileContent(s.file)
	if err != nil {
		found.addAll(fault{ConfigFlag, fmt.Errorf("%s: %w", Given(found.flags, ConfigFlag), err)})
		return
	}
	values, wrong := parseFile(s.file, content)
	for i, one := range wrong {
		if one.flag != ConfigFlag && found.flags.Changed(one.flag) {
			wrong[i].flag = "" // its value is known, from a place that wins over the file
		}
	}
	found.addAll(wrong...)
	if err := fromFile(found.flags, s.file, values); err != nil {
		found.addAll(fault{ConfigFlag, err})
	}
}

// resolveConfig returns the configuration of the node, and adds what is wrong with it.
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
	found.checkThat(slices.Contains([]string{"json", "console"}, s.LogFormat), "log-format",
		" %q: must be json or console", s.LogFormat)
	found.checkThat(slices.Contains([]string{"debug", "info", "warn", "error"}, s.LogLevel),
		"log-level",
		" %q: must be debug, info, warn or error", s.LogLevel)
	s.checkAdmin(found)
	s.readSecrets(&c, found)
	found.addInvalid(c.Validate())
	if len(found.list) == 0 && !c.Memory && c.DataDir == "" {
		var err error
		c.DataDir, err = defaultDataDir(c)
		found.checkThat(err == nil, "data-dir", ": name one, or use --memory: %w", err)
	}
	return c
}

// checkAdmin looks whether there can be such an admin API, and reads its token.
func (s *Settings) checkAdmin(found *faults) {
	if s.Admin == AdminOff {
		found.checkThat(!s.AdminWrite || found.isBroken("admin"), "admin-write",
			" needs an admin API: say where with --admin")
		return
	}
	var err error
	if s.adminTokenFile != "" {
		s.adminToken, err = admin.ReadToken(s.adminTokenFile)
		if found.checkThat(err == nil, "admin-token-file", ": %w", err); err != nil {
			return // without it, an address that needs one would be told of too
		}
	}
	err = adminapi.CheckListen(s.Admin, s.adminToken != nil)
	if errors.Is(err, adminapi.ErrNoToken) {
		found.checkThat(found.isBroken("admin-token-file"), "admin",
			": %w; or name the file of a token with --admin-token-file", err)
		return
	}
	found.checkThat(err == nil, "admin", ": %w; or off", err)
}

// Access is what the admin API wants of its callers.
func (s *Settings) Access() []admin.AccessOption {
	if s.adminToken == nil {
		return nil
	}
	return []admin.AccessOption{admin.WithToken(s.adminToken)}
}

// readSecrets reads the secrets, where the node is to have them.
func (s *Settings) readSecrets(c *cluster.Config, found *faults) {
	f := found.flags
	open := "insecure"
	if !c.Insecure {
		open = "insecure-anywhere"
	}
	insecure := c.Insecure || c.InsecureAnywhere
	contradicts := func(one, other, value string) {
		found.checkThat(false, one, " contradicts %s%s: leave one of them out", alsoGiven(f, other),
			value)
	}
	before, unknown := len(found.list), found.isBroken("secret-file", "insecure", "insecure-anywhere",
		"tls-ca", "tls-cert", "tls-key")
	switch {
	case s.secretFile != "" && s.hasFiles():
		contradicts("tls-cert", "secret-file", " "+s.secretFile)
	case s.secretFile != "" && insecure:
		contradicts(open, "secret-file", " "+s.secretFile)
	case s.hasFiles() && c.InsecureAnywhere && !c.Insecure: // Validate tells the other
		contradicts(open, "tls-cert", "")
	case s.secretFile == "" && !insecure && !s.hasFiles():
		found.checkThat(unknown, "secret-file",
			": no secret: name a file that holds one, the same on every "+
				"node (athena secret new FILE makes it), or certificates with --tls-ca, --tls-cert and "+
				"--tls-key, or say --insecure")
	case s.secretFile != "":
		var err error
		c.Secret, err = cluster.ReadSecret(s.secretFile)
		found.checkThat(err == nil, "secret-file", ": %w", err)
	}
	if len(found.list) > before || unknown {
		c.InsecureAnywhere = !s.hasFiles() // so that Validate does not tell it again
		return
	}
	if s.otherSecretFile != "" {
		var err error
		c.OtherSecret, err = cluster.ReadSecret(s.otherSecretFile)
		found.checkThat(err == nil, "other-secret-file", ": %w", err)
	}
}

// hasFiles reports whether certificates come from files.
func (s *Settings) hasFiles() bool {
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
