// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// sound returns a valid configuration on loopback without a secret.
func sound() Config {
	return Config{Addr: "127.0.0.1:7001", Seeds: []string{"127.0.0.1:7001", "127.0.0.1:7002"}, Size: 3}
}

func with(change func(*Config)) Config {
	c := sound()
	change(&c)
	return c
}

var testSecret = []byte(clusterSecret)

type configCase struct {
	name   string
	config Config
	want   string // part of the error text; "" if the configuration is valid
}

// check checks that Validate finds exactly the expected fault, in the right field.
func (c configCase) check(t *testing.T) {
	t.Helper()
	err := c.config.Validate()
	switch {
	case c.want == "" && err != nil:
		t.Errorf("%s: got %v, want no fault", c.name, err)
	case c.want != "" && err == nil:
		t.Errorf("%s: got no fault, want one with %q", c.name, c.want)
	case c.want != "":
		lines := strings.Split(err.Error(), "\n")[1:]
		if len(lines) != 1 || !strings.Contains(lines[0], c.want) {
			t.Errorf("%s: got %q, want one fault with %q", c.name, lines, c.want)
		}
	}
}

func TestValidateNamesFieldAndValue(t *testing.T) {
	for _, c := range []configCase{
		{"sound", sound(), ""},
		{"one node alone", Config{Addr: "127.0.0.1:7001", Size: 1}, ""},
		{"a witness", with(func(c *Config) { c.Preference = member.NeverLeads }), ""},
		{"a witness alone", Config{Addr: "127.0.0.1:7001", Size: 1, Preference: member.NeverLeads},
			"Preference: never: the only member"},
		{"preference 101", with(func(c *Config) { c.Preference = 101 }),
			"Preference: 101: must be never"},
		{"hand-over too early", with(func(c *Config) { c.HandOverToPreferred = time.Second - 1 }),
			"HandOverToPreferred 999.999999ms: must be at least LeaderTimeout (1s)"},
		{"hand-over", with(func(c *Config) { c.HandOverToPreferred = time.Second }), ""},
		{"invalid label", with(func(c *Config) { c.Labels = map[string]string{"": "a"} }), "Labels"},
		{"no address", with(func(c *Config) { c.Addr = "" }), "Addr is required"},
		{"no port", with(func(c *Config) { c.Addr = "127.0.0.1" }), `Addr "127.0.0.1"`},
		{"port 0", with(func(c *Config) { c.Addr = "127.0.0.1:0" }), `Addr "127.0.0.1:0"`},
		{"port too large", with(func(c *Config) { c.Addr = "127.0.0.1:65536" }), "Addr"},
		{"invalid host", with(func(c *Config) { c.Addr = "127.0.0.1 :7001" }),
			`Addr "127.0.0.1 :7001": member: invalid address`},
		{"all addresses", with(func(c *Config) { c.Addr, c.Secret = ":7001", testSecret }),
			`Addr ":7001": means every address`},
		{"unspecified", with(func(c *Config) { c.Addr, c.Secret = "[::]:7001", testSecret }),
			`Addr "[::]:7001": means every address`},
		{"unspecified IPv4 in IPv6", with(func(c *Config) {
			c.Addr, c.Secret = "[::ffff:0.0.0.0]:7001", testSecret
		}), `Addr "[::ffff:0.0.0.0]:7001": means every address`},
		{"all addresses, advertised", with(func(c *Config) {
			c.Addr, c.Advertise, c.Secret = ":7001", "10.0.0.1:7001", testSecret
		}), ""},
		{"advertises an observer", with(func(c *Config) {
			c.Addr, c.Advertise, c.Secret = ":7001", "x.observer.invalid:1", testSecret
		}), "must not be the address of an observer"},
		{"bad advertise", with(func(c *Config) { c.Advertise = "a b:1" }), `Advertise "a b:1"`},
		{"long name", with(func(c *Config) { c.Name = strings.Repeat("n", 129) }), "Name"},
		{"control in name", with(func(c *Config) { c.Name = "a\x1b[2J" }), `Name "a\x1b[2J"`},
		{"long cluster", with(func(c *Config) { c.Cluster = strings.Repeat("c", 256) }), "Cluster"},
		{"size 0", with(func(c *Config) { c.Size = 0 }), "Size is required"},
		{"size negative", with(func(c *Config) { c.Size = -1 }), "Size -1"},
		{"size 256", with(func(c *Config) { c.Size = 256 }), "Size 256"},
		{"size 255", with(func(c *Config) { c.Size = 255 }), ""},
		{"no seeds", with(func(c *Config) { c.Seeds = nil }), "Seeds is required"},
		{"more seeds than members", with(func(c *Config) { c.Size = 1 }),
			"Seeds has 2 entries, but Size is 1"},
		{"seed twice", with(func(c *Config) { c.Seeds = append(c.Seeds, c.Seeds[0]) }),
			`Seeds[2] "127.0.0.1:7001"`},
		{"bad seed", with(func(c *Config) { c.Seeds[1] = "db:" }), `Seeds[1] "db:"`},
		{"join-only without a seed", with(func(c *Config) {
			c.Addr, c.JoinOnly = "127.0.0.1:7009", true
		}), ""},
		{"join-only", with(func(c *Config) { c.JoinOnly = true }), ""},
		{"two stores", with(func(c *Config) { c.Memory, c.DataDir = true, "d" }),
			`Memory contradicts DataDir "d"`},
		{"timings", with(func(c *Config) { c.HeartbeatTimeout = time.Minute }), "HeartbeatTimeout 1m0s"},
		{"other timings", with(func(c *Config) {
			c.OtherTimings = &Config{HeartbeatTimeout: time.Minute}
		}), "OtherTimings: HeartbeatTimeout 1m0s"},
		{"other timings that are far apart", with(func(c *Config) {
			other := ClassicConfig()
			c.OtherTimings = &other
		}), "OtherTimings nine tenths of 1.7s, the shorter time"},
		{"receiver", with(func(c *Config) {
			c.Receiver = receiver.NewMux()
			receiver.Handle[int](c.Receiver, nil)
		}), "handler of int is nil"},
	} {
		c.check(t)
	}
}

func TestValidateSeedsOfDNS(t *testing.T) {
	seeds := func(all ...string) Config {
		return with(func(c *Config) { c.Seeds, c.InsecureAnywhere, c.JoinOnly = all, true, true })
	}
	for _, c := range []configCase{
		{"alone", seeds(srvSeed), ""},
		{"with others", seeds(srvSeed, "a:1"),
			"Seeds has 2 entries: " + srvSeed + " must be the only one"},
		{"with a port", seeds("srv:_a._udp.x:1"), `Seeds "srv:_a._udp.x:1": must be a DNS name`},
		{"not printable", seeds("srv:_a\n"), `Seeds "srv:_a\n": must be a DNS name`},
		{"a host called srv", with(func(c *Config) { c.Seeds[1] = "srv:7000" }), "Secret is empty"},
		{"beyond loopback", with(func(c *Config) { c.Seeds = []string{srvSeed} }), "Secret is empty"},
	} {
		c.check(t)
	}
}

func TestValidateIPv6(t *testing.T) {
	for _, c := range []configCase{
		{"a seed in two forms", with(func(c *Config) {
			c.Seeds = []string{"[::1]:7001", "[0:0::1]:7001"}
		}), `Seeds[1] "[0:0::1]:7001": listed twice`},
		{"an interface", with(func(c *Config) {
			c.Advertise, c.Secret = "[fe80::1%eth0]:7001", testSecret
		}), `Advertise "[fe80::1%eth0]:7001": names an interface`},
		{"a group of machines", with(func(c *Config) {
			c.Advertise, c.Secret = "[ff02::1]:7001", testSecret
		}), `Advertise "[ff02::1]:7001": must be the host:port at which the others reach`},
		{"a group of machines to listen on", with(func(c *Config) {
			c.Addr, c.Secret = "[::ffff:224.0.0.1]:7001", testSecret
		}), `Advertise "[::ffff:224.0.0.1]:7001": must be the host:port at which the others`},
		{"an interface to listen on", with(func(c *Config) {
			c.Addr, c.Advertise, c.Secret = "[fe80::1%eth0]:7001", "n1:7001", testSecret
		}), ""},
		{"a seed with an interface", with(func(c *Config) {
			c.Seeds[1], c.Secret = "[fe80::1%eth0]:7001", testSecret
		}), `Seeds[1] "[fe80::1%eth0]:7001": names an interface`},
	} {
		c.check(t)
	}
}

func TestValidateWantsASecretBeyondLoopback(t *testing.T) {
	for _, c := range []configCase{
		{"short secret", with(func(c *Config) { c.Secret = testSecret[1:] }),
			"Secret is text but not base64"},
		{"secret", with(func(c *Config) { c.Secret = testSecret }), ""},
		{"password", with(func(c *Config) { c.Secret = []byte("passwordpassword") }),
			"Secret has at most 12 random bytes, but a secret needs 32; make one with athena secret new "},
		{"secret with its line end", with(func(c *Config) {
			c.Secret = append(bytes.Clone(testSecret), '\n')
		}), "Secret is text but not base64"},
		{"other secret alone", with(func(c *Config) { c.OtherSecret = testSecret }),
			"OtherSecret is set"},
		{"short other secret", with(func(c *Config) {
			c.Secret, c.OtherSecret = testSecret, testSecret[1:]
		}), "OtherSecret is text but not base64"},
		{"secret and insecure", with(func(c *Config) { c.Secret, c.Insecure = testSecret, true }),
			"Insecure true"},
		{"no secret on all addresses", with(func(c *Config) {
			c.Addr, c.Advertise = ":7001", "127.0.0.1:7001"
		}), "Secret is empty"},
		{"no secret beyond loopback", with(func(c *Config) { c.Seeds[1] = "10.0.0.2:7001" }),
			"Secret is empty"},
		{"a name is no loopback", with(func(c *Config) { c.Seeds[1] = "db:7001" }), "Secret is empty"},
		{"insecure beyond loopback", with(func(c *Config) {
			c.Seeds[1], c.Insecure = "10.0.0.2:7001", true
		}), "Secret is empty"},
		{"insecure anywhere", with(func(c *Config) {
			c.Seeds[1], c.InsecureAnywhere = "10.0.0.2:7001", true
		}), ""},
		{"localhost", with(func(c *Config) { c.Seeds[1] = "localhost:7001" }), ""},
	} {
		c.check(t)
	}
}

func TestValidateNamesAllFaultsAtOnce(t *testing.T) {
	c := Config{Addr: "nowhere", Seeds: []string{"a", "b"}, Size: 1, HeartbeatInterval: -1}
	err := c.Validate()
	for _, want := range []string{
		`Addr "nowhere"`, "Seeds has 2 entries", `Seeds[0] "a"`, `Seeds[1] "b"`, "HeartbeatInterval -1ns",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate: got %v, want it to say %q too", err, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	short := Config{Addr: "127.0.0.1:7001", Size: 1, LeaderTimeout: 500 * time.Millisecond}
	got := short.WithDefaults()
	if got.Advertise != got.Addr || got.Name != got.Addr || got.Cluster != DefaultCluster {
		t.Errorf("names: got %q %q %q, want the address twice and %q",
			got.Advertise, got.Name, got.Cluster, DefaultCluster)
	}
	if len(got.Seeds) != 1 || got.Seeds[0] != got.Addr {
		t.Errorf("Seeds of a cluster of one: got %q, want the node itself", got.Seeds)
	}
	if !got.Insecure {
		t.Error("Insecure on loopback without a secret: got false, want true")
	}
	if got.HeartbeatInterval != 100*time.Millisecond {
		t.Errorf("timings: got interval %v, want 100ms", got.HeartbeatInterval)
	}
	long := Config{Addr: strings.Repeat("h", 200) + ":7001"}.WithDefaults()
	if len(long.Name) != member.MaxNameBytes {
		t.Errorf("Name for a long address: got %d bytes, want %d", len(long.Name), member.MaxNameBytes)
	}
	wide := Config{Addr: "x" + strings.Repeat("é", 120) + ":7001"}.WithDefaults()
	if !member.IsPrintable(wide.Name) || len(wide.Name) != member.MaxNameBytes-1 {
		t.Errorf("Name for a long address of wide letters: got %q, want no half letter", wide.Name)
	}
}

// TestDefaultLease checks that the default lease is 0.7 x LeaderTimeout. For every
// HeartbeatInterval with which LeaderTimeout is a valid lease, the default must be valid too.
func TestDefaultLease(t *testing.T) {
	for _, c := range []struct{ interval, leader, want time.Duration }{
		{100, 1000, 700}, {100, 500, 350}, {100, 400, 350}, {100, 340, 340}, {20, 200, 140},
	} {
		got := Config{
			Addr: "127.0.0.1:7001", Size: 1, HeartbeatInterval: c.interval * time.Millisecond,
			HeartbeatTimeout: 2 * c.interval * time.Millisecond,
			LeaderTimeout:    c.leader * time.Millisecond,
		}.WithDefaults()
		if got.LeaseTimeout != c.want*time.Millisecond || got.Validate() != nil {
			t.Errorf("%+v: got lease %v, %v", c, got.LeaseTimeout, got.Validate())
		}
	}
}

// TestProfiles compares the profiles with the table of protocol.md section 1.
func TestProfiles(t *testing.T) {
	ms := func(n time.Duration) time.Duration { return n * time.Millisecond }
	for _, p := range []struct {
		name   string
		config Config
		want   [6]time.Duration
	}{
		{"LocalConfig", LocalConfig(),
			[6]time.Duration{ms(20), ms(80), ms(200), ms(140), ms(2000), ms(100)}},
		{"DefaultConfig", DefaultConfig(),
			[6]time.Duration{ms(100), ms(400), ms(1000), ms(700), ms(10000), ms(500)}},
		{"WANConfig", WANConfig(),
			[6]time.Duration{ms(500), ms(2000), ms(5000), ms(3500), ms(30000), ms(2000)}},
		{"ClassicConfig", ClassicConfig(),
			[6]time.Duration{ms(10000), ms(30000), ms(90000), ms(63000), ms(90000), ms(5000)}},
	} {
		p.config.Addr, p.config.Size = "127.0.0.1:7001", 1
		s, err := p.config.parse()
		if err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		got := [6]time.Duration{s.timings.HeartbeatInterval, s.timings.HeartbeatTimeout,
			s.timings.LeaderTimeout, s.timings.LeaseTimeout, s.timings.TTLTimeout,
			s.timings.RetryInterval}
		if got != p.want {
			t.Errorf("%s: got %v, want %v", p.name, got, p.want)
		}
		if guard := leaseGuard(s.timings); guard <= 0 || guard >= s.timings.HeartbeatInterval {
			t.Errorf("%s: guard %v, want less than an interval", p.name, guard)
		}
	}
}

// TestStartRefusesBeforeItOpens checks that Start creates nothing if the configuration is invalid.
func TestStartRefusesBeforeItOpens(t *testing.T) {
	dir := t.TempDir() + "/data"
	_, err := Start(context.Background(), Config{Addr: "nowhere", DataDir: dir, Size: 1})
	if err == nil || !strings.Contains(err.Error(), `Addr "nowhere"`) {
		t.Errorf("Start: got %v, want the fault of Addr", err)
	}
}
