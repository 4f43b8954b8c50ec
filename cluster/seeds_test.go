// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/athena-go/athena/member"
)

const waitingForSRV = "waiting for the SRV records of the seeds"

const srvSeed = "srv:_athena._udp.example.org"

// zone has the SRV records of a test; err is the answer of a name server that is down.
type zone struct {
	mu      sync.Mutex
	records []*net.SRV
	err     error
	lookups int
}

func (z *zone) lookUp(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.lookups++
	if service != "" || proto != "" || srvPrefix+name != srvSeed {
		return "", nil, fmt.Errorf("lookup of %q %q %q", service, proto, name)
	}
	return name, z.records, z.err
}

// set makes the nodes of a world the targets.
func (z *zone) set(nodes ...int) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.records = nil
	for _, i := range nodes {
		a := address(i)
		z.records = append(z.records, &net.SRV{Target: a.Host + ".", Port: a.Port})
	}
}

// startSRV starts node i with the seeds of a zone, and returns its error when Start returns.
func (w *world) startSRV(ctx context.Context, i int, z *zone, cfg Config) <-chan error {
	cfg = w.config(i, cfg)
	cfg.Seeds, cfg.InsecureAnywhere = []string{srvSeed}, true
	done := make(chan error, 1)
	opts := append(w.options(i), func(o *options) { o.lookUpSRV = z.lookUp })
	go func() {
		n, err := Start(ctx, cfg, opts...)
		if err == nil {
			w.nodes[i] = n
		}
		done <- err
	}()
	return done
}

func wantStarted(t *testing.T, done ...<-chan error) {
	t.Helper()
	for i, one := range done {
		if err := <-one; err != nil {
			t.Fatalf("start %d: %v", i, err)
		}
	}
}

// TestSRVSeeds starts three nodes while DNS has one of them, as a platform does that lists nodes
// one by one. They must wait for the record of each member and then form a cluster. Later a node
// must restart without DNS, and a node without its store must join with the record of another.
func TestSRVSeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		w.durable()
		w.nodes = make([]*Node, 3)
		z := &zone{}
		var started []<-chan error
		for i := range w.nodes {
			z.set([]int{0, 1}[:min(i+1, 2)]...)
			started = append(started, w.startSRV(t.Context(), i, z, Config{}))
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		if n := w.book.count(waitingForSRV); n < 3 || n > 6 {
			t.Errorf("%d lines about incomplete records, want one for each number of records", n)
		}
		if w.nodes[0] != nil || w.nodes[1] != nil || w.nodes[2] != nil {
			t.Fatal("a node has started with records of two members of three")
		}
		z.set(2, 0, 1)
		wantStarted(t, started...)
		for _, n := range w.nodes {
			if _, err := n.WaitLeader(w.within(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if s := n.Status(); len(s.OtherSeeds) > 0 {
				t.Errorf("other seeds %v, want none", s.OtherSeeds)
			}
		}

		w.end(w.nodes[1])
		z.err = errors.New("the name server is down")
		wantStarted(t, w.startSRV(t.Context(), 1, z, Config{}))
		found := w.book.wants("found the seeds", 4)
		if last := found[3]; fmt.Sprint(last["seeds"]) != fmt.Sprint(found[0]["seeds"]) ||
			!strings.Contains(fmt.Sprint(last["error"]), "down") {
			t.Errorf("without DNS: got %v, want the members of the roster and the error", last)
		}

		w.end(w.nodes[2])
		z.err = nil
		z.set(2)
		w.dir = func(i int) string { return t.TempDir() }
		before := w.book.count(waitingForSRV)
		joined := w.startSRV(t.Context(), 2, z, Config{JoinOnly: true})
		time.Sleep(time.Minute)
		waits := w.book.wants(waitingForSRV, before+1)[before]
		if err := fmt.Sprint(waits["error"]); !strings.Contains(err, "only the SRV record of this") {
			t.Errorf("with its own record only: got %v, want a node that waits for another", waits)
		}
		z.set(0)
		wantStarted(t, joined)
	})
}

// TestSRVSeedsThatDiffer gives one of two nodes other records. Both have complete answers, but
// different seeds, so they must not found a cluster, although their configurations are the same.
func TestSRVSeedsThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		w.nodes = make([]*Node, 3)
		here, there := &zone{}, &zone{}
		here.set(0, 1, 2)
		there.set(0, 1, 7)
		wantStarted(t, w.startSRV(t.Context(), 0, here, Config{}),
			w.startSRV(t.Context(), 1, there, Config{}))
		time.Sleep(time.Minute)
		for _, n := range w.nodes[:2] {
			defer n.Close()
			if _, ok := n.Leader(); ok {
				t.Errorf("%v sees a leader, but its seeds and those of the other differ", n.cfg.self)
			}
		}
	})
}

// TestSRVSeedsAreChecked checks that a node neither starts nor stops for records that it cannot
// use, and that the error names them.
func TestSRVSeedsAreChecked(t *testing.T) {
	many := &zone{}
	many.set(0, 1, 2, 3)
	twice := &zone{}
	twice.set(0, 1, 1)
	for name, c := range map[string]struct {
		zone *zone
		want string
	}{
		"down":       {&zone{err: errors.New("no such host")}, "cannot look up"},
		"none":       {&zone{}, "has 0 SRV records"},
		"too many":   {many, "has 4 SRV records"},
		"duplicates": {twice, "has 3 SRV records"},
		"no service": {&zone{records: []*net.SRV{{Target: ".", Port: 7000}}}, "is no address"},
		"port 0":     {&zone{records: []*net.SRV{{Target: "a.", Port: 0}}}, "is no address"},
		"hostile":    {&zone{records: []*net.SRV{{Target: "a\x1b[2J.", Port: 7000}}}, `a\x1b[2J`},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 3)
			w.nodes = make([]*Node, 3)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("enough"))
			defer cancel()
			err := <-w.startSRV(ctx, 0, c.zone, Config{})
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.HasSuffix(err.Error(), "enough") {
				t.Errorf("%s: got %v, want %q and the cause of the context", name, err, c.want)
			}
			if c.zone.lookups < 100 || c.zone.lookups > 121 {
				t.Errorf("%s: %d lookups in a minute, want one each retry interval", name, c.zone.lookups)
			}
		})
	}
}

// TestNodeMissingInSeeds checks that a node that is not among as many seeds as members logs this,
// and that a node beside fewer seeds does not.
func TestNodeMissingInSeeds(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		for _, size := range []int{3, 5} {
			j, logger := keep(zerolog.WarnLevel)
			cfg := w.config(7, Config{})
			cfg.Size = size
			_, err := Start(w.within(time.Second), cfg, append(w.options(7), logger)...)
			if err == nil {
				t.Fatal("the node has joined")
			}
			lines, _ := j.about("the seeds name as many nodes as the cluster has members, but not this " +
				"node: unless it replaces one of them, correct its advertised address, or the seeds")
			if len(lines) > 0 != (size == 3) {
				t.Errorf("size %d: got %q", size, lines)
			}
		}
	})
}

// TestSRVSeedsInAnyCase checks that nodes whose resolvers return a name in different cases find the
// same seeds.
func TestSRVSeedsInAnyCase(t *testing.T) {
	z := &zone{records: []*net.SRV{{Target: "N1.Example.org.", Port: 7000}}}
	got, err := lookUpTargets(t.Context(), z.lookUp, strings.TrimPrefix(srvSeed, srvPrefix), 1, 1)
	if want := (member.Address{Host: "n1.example.org", Port: 7000}); err != nil ||
		!slices.Equal(got, []member.Address{want}) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	c := quicConfig(1, clusterSecret)
	c.Seeds, c.Size = []string{srvSeed}, 3
	for advertise, want := range map[string]string{
		"n1.example.org:7000": "", "N1.example.org:7000": "must be in lower case",
	} {
		c.Advertise = advertise
		err := c.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", advertise, err, want)
		}
	}
}

// nameServer answers questions for the SRV records of srvSeed on UDP, as a name server does: with
// all records in an order of its own. It returns its address.
func nameServer(t *testing.T, targets *atomic.Pointer[[]member.Address]) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	go func() {
		defer close(done)
		for packet := make([]byte, 512); ; {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(packet[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Authoritative, m.Additionals = true, true, nil
			for _, a := range slices.Backward(*targets.Load()) {
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{
						Name: m.Questions[0].Name, Type: dnsmessage.TypeSRV, Class: dnsmessage.ClassINET, TTL: 1,
					},
					Body: &dnsmessage.SRVResource{Port: a.Port, Target: dnsmessage.MustNewName(a.Host + ".")},
				})
			}
			answer, err := m.Pack()
			if err == nil {
				_, err = conn.WriteTo(answer, from)
			}
			if err != nil {
				t.Errorf("answer of the name server: %v", err)
			}
		}
	}()
	return conn.LocalAddr().String()
}

// TestSRVSeedsOfANameServer forms a cluster over QUIC whose nodes ask a real name server, which has
// the name of this host as the target of each.
func TestSRVSeedsOfANameServer(t *testing.T) {
	var records atomic.Pointer[[]member.Address]
	var all []member.Address
	sockets := make([]net.PacketConn, 3)
	for i := range sockets {
		var err error
		if sockets[i], err = net.ListenPacket("udp4", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		port := sockets[i].LocalAddr().(*net.UDPAddr).Port
		all = append(all, member.Address{Host: "localhost", Port: uint16(port)})
	}
	two := all[:2]
	records.Store(&two)
	server := nameServer(t, &records)
	resolver := &net.Resolver{PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", server)
		}}
	b := newBook(t)
	started := make(chan *Node)
	for i, socket := range sockets {
		cfg := LocalConfig()
		cfg.Addr, cfg.Advertise = socket.LocalAddr().String(), all[i].String()
		cfg.Seeds, cfg.Size, cfg.Secret = []string{srvSeed}, 3, []byte(clusterSecret)
		go func() {
			n, err := Start(t.Context(), cfg, WithLogger(logTo(zerolog.New(b))), func(o *options) {
				o.socket = func(string) (net.PacketConn, error) { return socket, nil }
				o.lookUpSRV = resolver.LookupSRV
			})
			if err != nil {
				t.Errorf("node %d: %v", i, err)
			}
			started <- n
		}()
	}
	for b.count(waitingForSRV) < len(sockets) {
		time.Sleep(10 * time.Millisecond)
	}
	records.Store(&all)
	for range sockets {
		if n := <-started; n != nil {
			defer n.Close()
			if err := n.WaitActive(t.Context(), 3); err != nil {
				t.Error(err)
			}
		}
	}
}
