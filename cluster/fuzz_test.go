// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// FuzzConfig checks that each line of an error of Validate names a field of Config, and that a
// valid configuration has valid defaults. A node that starts alone with it must lead provisionally,
// or Start must return a JoinError.
func FuzzConfig(f *testing.F) {
	ms := int64(time.Millisecond)
	f.Add("127.0.0.1:7001", "", "", "", 3, "127.0.0.1:7001,127.0.0.1:7002", uint8(0),
		[]byte(nil), []byte(nil), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0))
	f.Add(":7000", "db-1:7000", "n\n1", "orders", 1, "", uint8(7), testSecret, testSecret,
		20*ms, 80*ms, 200*ms, 100*ms, 2000*ms, 100*ms)
	f.Add("[::1]:1", "[::1]:2", "é", "", 255, "[::1]:2,[::1]:2,x", uint8(2), testSecret[1:],
		[]byte(nil), -ms, int64(1), int64(-1<<63), int64(1<<63-1), int64(0), ms)
	f.Fuzz(func(
		t *testing.T, addr, advertise, name, cluster string, size int, seeds string, flags uint8,
		secret, other []byte, interval, heartbeat, leader, lease, ttl, retry int64,
	) {
		c := Config{
			Addr: addr, Advertise: advertise, Name: name, Cluster: cluster, Size: size,
			JoinOnly: flags&1 != 0, Insecure: flags&2 != 0, InsecureAnywhere: flags&4 != 0,
			Secret: secret, OtherSecret: other,
			HeartbeatInterval: time.Duration(interval), HeartbeatTimeout: time.Duration(heartbeat),
			LeaderTimeout: time.Duration(leader), LeaseTimeout: time.Duration(lease),
			TTLTimeout: time.Duration(ttl), RetryInterval: time.Duration(retry),
		}
		if seeds != "" {
			c.Seeds = strings.Split(seeds, ",")
		}
		if err := c.Validate(); err != nil {
			checkFaults(t, c, err)
			return
		}
		checkSettings(t, c)
		startAlone(t, c)
	})
}

// checkFaults checks that each line names a field, and that the text is not unreasonably long.
func checkFaults(t *testing.T, c Config, err error) {
	t.Helper()
	head, rest, _ := strings.Cut(err.Error(), "\n")
	if head != "cluster: invalid configuration:" || rest == "" {
		t.Fatalf("%+v: %v", c, err)
	}
	for line := range strings.SplitSeq(rest, "\n") {
		name := firstWord.FindString(line)
		if _, ok := reflect.TypeFor[Config]().FieldByName(name); !ok {
			t.Fatalf("%+v: the line %q names no field", c, line)
		}
	}
	given := len(c.Addr) + len(c.Advertise) + len(strings.Join(c.Seeds, ","))
	if most := 20*given + 100*len(c.Seeds) + 8192; len(rest) > most {
		t.Fatalf("an error of %d bytes for %d", len(rest), given)
	}
}

var firstWord = regexp.MustCompile(`^[A-Z][A-Za-z]+`)

func checkSettings(t *testing.T, c Config) {
	t.Helper()
	d := c.WithDefaults()
	if again := d.WithDefaults(); !reflect.DeepEqual(d, again) {
		t.Fatalf("defaults of\n%+v\nare\n%+v", d, again)
	}
	s, err := d.parse()
	switch {
	case err != nil:
		t.Fatalf("%+v passes, and with its defaults: %v", c, err)
	case !s.self.IsValid() || s.timings.Validate() != nil || len(s.Name) > member.MaxNameBytes:
		t.Fatalf("%+v gives %+v", c, s)
	case len(s.seeds) == 0 || len(s.seeds) > s.Size ||
		!slices.IsSortedFunc(s.seeds, member.Address.Compare):
		t.Fatalf("%+v gives the seeds %v", c, s.seeds)
	}
}

// startAlone starts a node in a cluster without other nodes.
func startAlone(t *testing.T, c Config) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		net := memnet.New()
		self, err := member.ParseAddress(c.WithDefaults().Advertise)
		if err != nil {
			t.Fatal(err)
		}
		listen := func(transport.Config) (transport.Network, error) { return net.Listen(self) }
		ctx, cancel := context.WithTimeout(t.Context(), 5*c.WithDefaults().TTLTimeout)
		defer cancel()
		n, err := Start(ctx, c, WithTransport(listen), WithClock(time.Now),
			WithLogger(slog.New(slog.DiscardHandler)))
		if _, refused := errors.AsType[*JoinError](err); err != nil && !refused {
			t.Fatalf("%+v passes, and Start returns %v", c, err)
		}
		if err == nil && n.Close() != nil {
			t.Fatalf("%+v: it does not close", c)
		}
	})
}
