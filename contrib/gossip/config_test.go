// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"
)

// The error joins all faults. Each fault names its field.
func TestConfigFaults(t *testing.T) {
	_, err := Start(t.Context(), Config{
		Name: "a\nb", Addr: "host:1", Advertise: "127.0.0.1:0", Seeds: []string{"seed"},
		Secret: []byte("short"), RejoinInterval: -1,
	})
	if err == nil {
		t.Fatal("it started")
	}
	for _, field := range []string{"Name", "Addr", "Advertise", "Seeds", "Secret", "RejoinInterval"} {
		if !strings.Contains(err.Error(), "Config."+field+" ") {
			t.Errorf("no fault of %s: %v", field, err)
		}
	}
	secret := make([]byte, 16)
	tuned := func(tune func(*memberlist.Config)) Config {
		return Config{Addr: "127.0.0.1:0", Tune: tune}
	}
	for _, f := range []struct {
		field  string
		config Config
	}{
		{"Secret", Config{Addr: "0.0.0.0:0"}},
		{"Addr", Config{Addr: "[::]:7946", Secret: secret}},
		{"Addr", Config{Addr: "127.0.0.1:0", Advertise: "10.0.0.1:7946"}},
		{"Advertise", Config{Addr: "10.0.0.1:0", Secret: secret, Advertise: "0.0.0.0:7946"}},
		{"Tune", tuned(func(m *memberlist.Config) { m.GossipInterval = 0 })},
		{"Tune", tuned(func(m *memberlist.Config) { m.GossipNodes = 0 })},
		{"Tune", tuned(func(m *memberlist.Config) { m.RetransmitMult = -1 })},
	} {
		f.config.Name = "a"
		if n, err := Start(t.Context(), f.config); err == nil {
			t.Errorf("%+v: the node started, at %s", f.config, n.Addr())
		} else if !strings.Contains(err.Error(), "Config."+f.field+" ") {
			t.Errorf("no fault of %s: %v", f.field, err)
		}
	}
}

func TestConfigOfMemberlist(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	c, err := Config{
		Name: "a", Addr: "0.0.0.0:7946", Advertise: "10.0.0.1:7000", Secret: key,
		Tune: func(m *memberlist.Config) { m.GossipNodes, m.Name = 9, "b" },
	}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.memberlist()
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "a" || m.BindAddr != "0.0.0.0" || m.BindPort != 7946 ||
		m.AdvertiseAddr != "10.0.0.1" || m.AdvertisePort != 7000 ||
		!bytes.Equal(m.SecretKey, key) || m.GossipNodes != 9 ||
		m.DeadNodeReclaimTime != reclaim || c.RejoinInterval != DefaultRejoinInterval {
		t.Errorf("%+v", m)
	}
}

// A line of memberlist keeps its level, is shortened, and stays a single line.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	drop := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	l := newLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug, ReplaceAttr: drop,
	})))
	for in, want := range map[string]string{
		"[DEBUG] memberlist: one": "level=DEBUG msg=\"memberlist: one\"\n",
		"[INFO] memberlist: two":  "level=INFO msg=\"memberlist: two\"\n",
		"[WARN] memberlist: a\nb": "level=WARN msg=\"memberlist: a\\nb\"\n",
		"[ERR] x":                 "level=ERROR msg=x\n",
		"[OTHER] x":               "level=INFO msg=\"[OTHER] x\"\n",
		"plain":                   "level=INFO msg=plain\n",
	} {
		out.Reset()
		l.Print(in)
		if out.String() != want {
			t.Errorf("%q: %q, want %q", in, out.String(), want)
		}
	}
	out.Reset()
	l.Print(strings.Repeat("x", 5000))
	if out.Len() > maxLineBytes+100 {
		t.Errorf("a line of %d bytes", out.Len())
	}
}

// All addresses of a seed are tried. A seed without an address is skipped.
func TestSeeds(t *testing.T) {
	g := lone()
	n := g.node
	n.log = slog.New(slog.DiscardHandler)
	n.seedNames = []string{"127.0.0.1:7001", "[::1]:7002", "127.0.0.1:no-such-port"}
	got := n.resolveSeeds(t.Context())
	if len(got) != 2 || got[0].String() != "127.0.0.1:7001" || got[1].String() != "[::1]:7002" {
		t.Errorf("seeds are %v", got)
	}
	// Seeds that are members are not missing.
	n.seedNames = n.seedNames[:1]
	if a := n.findMissing(t.Context()); a != got[0] {
		t.Errorf("the missing member is %v, want the seed", a)
	}
	m := &memberlist.Node{Name: "s", Addr: net.IPv4(127, 0, 0, 1), Port: 7001}
	events{n}.NotifyJoin(m)
	if a := n.findMissing(t.Context()); a.IsValid() {
		t.Errorf("the missing member is %v, want none", a)
	}
	events{n}.NotifyLeave(m)
	if _, lost := n.lost["s"]; !lost || n.findMissing(t.Context()) != got[0] {
		t.Errorf("lost are %v", n.lost)
	}
}
