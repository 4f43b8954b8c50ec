// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type ask struct{ N int }

type told struct {
	By       string
	Observer bool
	Member   bool
}

// world is a cluster of three in a bubble.
type world struct {
	t     *testing.T
	net   *memnet.Network
	nodes []*cluster.Node
	disks [3]store.Memory // of the nodes
}

func addressOf(i int) member.Address {
	return member.Address{Host: "127.0.0.1", Port: uint16(7001 + i)}
}

func inWorld(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: memnet.New(), nodes: make([]*cluster.Node, 3)}
		started := make(chan error)
		for i := range w.nodes {
			go func() {
				n, err := w.startNode(i)
				w.nodes[i] = n
				started <- err
			}()
		}
		for range w.nodes {
			if err := <-started; err != nil {
				t.Fatal(err)
			}
		}
		defer func() {
			for _, n := range w.nodes {
				n.Close()
			}
		}()
		for _, n := range w.nodes {
			if err := n.WaitActive(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
		}
		test(t, w)
	})
}

func (w *world) startNode(i int) (*cluster.Node, error) {
	rx := receiver.NewMux()
	name := fmt.Sprint("n", i)
	receiver.HandleRequest(rx, func(ctx context.Context, from member.Member, a ask) (told, error) {
		n := cluster.FromContext(ctx)
		_, isMember := n.View().Member(from.Address)
		if a.N < 0 {
			<-ctx.Done()
			return told{}, ctx.Err()
		}
		return told{name, from.Address.IsObserver(), isMember}, nil
	})
	receiver.HandleStream(rx, "echo", func(
		_ context.Context, _ member.Member, s receiver.Stream,
	) error {
		_, err := io.Copy(s, s)
		return err
	})
	cfg := w.config(i)
	cfg.Receiver = rx
	return cluster.Start(w.onDisk(i), cfg, w.options(i)...)
}

func (w *world) config(i int) cluster.Config {
	seeds := []string{addressOf(0).String(), addressOf(1).String(), addressOf(2).String()}
	return cluster.Config{
		Addr: addressOf(i).String(), Name: fmt.Sprint("n", i), Size: 3, Seeds: seeds,
	}
}

func (w *world) options(i int) []cluster.Option {
	return []cluster.Option{
		cluster.WithClock(time.Now), cluster.WithLogger(slog.New(slog.DiscardHandler)),
		cluster.WithWorkers(16),
		cluster.WithTransport(func(transport.Config) (transport.Network, error) {
			return w.net.Listen(addressOf(i))
		}),
	}
}

// onDisk returns a context with the store of a node.
func (w *world) onDisk(i int) context.Context {
	return store.NewContext(w.t.Context(), &w.disks[i])
}

// startObserver starts an observer on port 9000+i, which knows some members or only member i.
func (w *world) startObserver(i int, members ...member.Address) *Observer {
	w.t.Helper()
	if members == nil {
		members = []member.Address{addressOf(i % 3)}
	}
	var texts []string
	for _, m := range members {
		texts = append(texts, m.String())
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	o, err := Start(ctx, Config{
		Cluster: cluster.DefaultCluster, Members: texts, clock: time.Now,
		Transport: func(transport.Config) (transport.Network, error) {
			return w.net.Listen(member.Address{Host: "127.0.0.1", Port: uint16(9000 + i)})
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

func (w *world) findLeader() int {
	return slices.IndexFunc(w.nodes, func(n *cluster.Node) bool {
		return n.View().Role == member.Leading
	})
}

// TestObserverAsks checks the view of an observer, requests to a member and to the leader, and
// streams; and that handlers can see that the sender is no member.
func TestObserverAsks(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		before := w.nodes[0].View()
		o := w.startObserver(1)
		defer o.Close()
		v := o.View()
		if lead := w.findLeader(); v.Leader != addressOf(lead) || !v.Authority || len(v.Members) != 3 {
			t.Errorf("view: got %+v, want 3 members led by %v", v, addressOf(lead))
		}
		for i := range w.nodes {
			got, err := Request[told](t.Context(), o, addressOf(i), ask{})
			if want := (told{fmt.Sprint("n", i), true, false}); err != nil || got != want {
				t.Errorf("request to %d: got %+v, %v; want %+v", i, got, err, want)
			}
		}
		got, err := RequestLeader[told](t.Context(), o, ask{})
		if want := (told{fmt.Sprint("n", w.findLeader()), true, false}); err != nil || got != want {
			t.Errorf("request to the leader: got %+v, %v; want %+v", got, err, want)
		}
		s, err := o.OpenStream(t.Context(), addressOf(2), "echo")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		fmt.Fprint(s, "hello")
		s.CloseWrite()
		if b, err := io.ReadAll(s); err != nil || string(b) != "hello" {
			t.Errorf("stream: got %q, %v", b, err)
		}
		time.Sleep(time.Minute)
		after := w.nodes[0].View()
		if !slices.Equal(before.Members, after.Members) || before.Version != after.Version {
			t.Errorf("the view of a member changed: %+v, then %+v", before, after)
		}
	})
}

// TestObserverFollowsTheLeader checks that an observer survives the end of the leader, which it
// also follows, and reaches the next leader.
func TestObserverFollowsTheLeader(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		lead := w.findLeader()
		o := w.startObserver(lead)
		defer o.Close()
		if err := w.nodes[lead].Close(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		began := time.Now()
		got, err := RequestLeader[told](ctx, o, ask{})
		if err != nil || got.By == fmt.Sprint("n", lead) {
			t.Errorf("request to the next leader: got %+v, %v", got, err)
		}
		t.Logf("the next leader answered after %v", time.Since(began))
	})
}

// TestObserverHearsAnAnnouncedEnd checks that observers see the next leader immediately when the
// end of the leader's process is announced. Those that follow the process itself first move to
// another member.
func TestObserverHearsAnAnnouncedEnd(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		lead := w.findLeader()
		var all []*Observer
		for i := range w.nodes { // the last one follows the leader
			o := w.startObserver(i, addressOf((lead+1+i)%3))
			defer o.Close()
			all = append(all, o)
		}
		w.net.Kill(addressOf(lead))
		<-w.nodes[lead].Done()
		began := time.Now()
		if err := cluster.AnnounceEnd(w.onDisk(lead), w.config(lead), w.options(lead)...); err != nil {
			t.Fatal(err)
		}
		for i, o := range all {
			for v := range o.Views(t.Context()) {
				if v.Authority && v.Leader != addressOf(lead) {
					break
				}
			}
			limit := 60 * time.Millisecond
			if i == len(all)-1 {
				limit += moveSpread
			}
			if took := time.Since(began); took > limit {
				t.Errorf("observer %d sees the next leader after %v, want %v", i, took, limit)
			}
		}
	})
}

// TestObserverLeavesAnIsolatedMember checks that an observer follows members that the member that
// it followed could not reach.
func TestObserverLeavesAnIsolatedMember(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		o := w.startObserver(0)
		defer o.Close()
		v := o.View()
		v.Members = slices.Clone(v.Members)
		for i := range v.Members {
			v.Members[i].Status = member.Unreachable
		}
		v.Authority = false
		o.setView(addressOf(0), v)
		if err := w.nodes[0].Close(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for v := range o.Views(ctx) {
			if o.currentHome() != addressOf(0) && v.Authority {
				return
			}
		}
		t.Errorf("the observer follows %v", o.currentHome())
	})
}

// TestObserverLeavesACutOffMember checks that an observer leaves a member that is cut off from the
// leader.
func TestObserverLeavesACutOffMember(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		home := (w.findLeader() + 1) % 3
		o := w.startObserver(home)
		defer o.Close()
		for i := range w.nodes {
			if i != home {
				w.net.Cut(addressOf(i), addressOf(home))
				w.net.Cut(addressOf(home), addressOf(i))
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for v := range o.Views(ctx) {
			if o.currentHome() != addressOf(home) && v.Authority {
				return
			}
		}
		t.Errorf("the observer follows %v", o.currentHome())
	})
}

// TestObserverCancels checks that a request that the observer gives up is canceled at the member.
func TestObserverCancels(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		o := w.startObserver(0)
		defer o.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := Request[told](ctx, o, addressOf(1), ask{-1})
		if !errors.Is(err, cluster.ErrUnknownOutcome) {
			t.Errorf("got %v, want ErrUnknownOutcome", err)
		}
		synctest.Wait()
	})
}

// TestObserverCannotTakePart sends every kind of message of the members as an observer. None has an
// effect: version, roster and leader stay, also while the lease of the leader is renewed.
func TestObserverCannotTakePart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		left := (w.findLeader() + 1) % 3 // so that there is a seat to take
		if err := w.nodes[left].Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.nodes = slices.Delete(w.nodes, left, left+1)
		o := w.startObserver(w.findLeader(), w.nodes[0].Self().Address)
		defer o.Close()
		time.Sleep(time.Minute) // until the member that left is removed
		before := w.nodes[0].View()
		lead := before.Leader
		for _, body := range []message.Body{
			message.JoinClusterRequest{Name: "x", Seed: true},
			message.LeaderQuery{ID: 1},
			message.LeaderKeepAlive{},
		} {
			for i, from := range []member.Identity{o.self, w.nodes[1].Self().Identity} {
				for _, n := range w.nodes {
					to := n.Self().Address
					frame, err := wire.Encode(message.Message{From: from, To: to, Body: body})
					if err != nil {
						t.Fatalf("%T %d: %v", body, i, err)
					}
					o.net.Notify(to, frame)
				}
				time.Sleep(5 * time.Second)
			}
		}
		for i, n := range w.nodes {
			v := n.View()
			if v.Leader != lead || v.Version != before.Version || len(v.Members) != len(before.Members) {
				t.Errorf("node %d: %+v, want the view of before: %+v", i, v, before)
			}
		}
		if _, err := RequestLeader[told](t.Context(), o, ask{}); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// fullMember greets as a member that accepts no observers.
type fullMember struct {
	handler
	at member.Address
}

func (f fullMember) Greet() message.Message {
	m := f.handler.Greet()
	m.From.Address = f.at
	return m
}

// TestObserverLeavesAFullMember checks that an observer asks the next member without delay if the
// first one is full.
func TestObserverLeavesAFullMember(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		first := w.startObserver(0)
		defer first.Close()
		full, err := mesh.New(mesh.Config{
			Encode: wire.Encode, Decode: wire.Decode, Size: 3,
			Key: func(member.StoreID) storekey.Key { return first.key },
		}, func(transport.Config) (transport.Network, error) { return w.net.Listen(addressOf(9)) })
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		if err := full.Start(fullMember{handler{first.messages, first}, addressOf(9)}); err != nil {
			t.Fatal(err)
		}
		asked := func() bool { return full.Stats().Handshakes["too many observers"] > 0 }
		n, began := 0, time.Now()
		for ; n < 8 || n < 64 && !asked(); n++ { // each chooses at random which member it asks first
			o := w.startObserver(1+n, addressOf(9), addressOf(0))
			defer o.Close()
			if o.currentHome() != addressOf(0) {
				t.Errorf("observer %d follows %v", n, o.currentHome())
			}
		}
		if took := time.Since(began); took > time.Duration(n)*probeStep/2 {
			t.Errorf("%d observers started in %v", n, took)
		}
		if !asked() {
			t.Error("no observer has asked the full member")
		}
	})
}

// TestObserverLearnsOfAnotherCluster checks that an observer takes a view with a lower version if
// the cluster was founded again, but not from a member that lags behind or of a former cluster.
func TestObserverLearnsOfAnotherCluster(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		o := w.startObserver(0)
		defer o.Close()
		old := o.View()
		old.Version += 5
		o.setView(addressOf(1), old)
		lagging := old
		lagging.Version--
		if o.setView(addressOf(1), lagging); o.View().Version != old.Version {
			t.Errorf("got the view of a member that lags behind: %+v", o.View())
		}
		lagging.ClusterID[0]++
		lagging.Authority = false
		if o.setView(addressOf(1), lagging); o.View().Version != old.Version {
			t.Errorf("got the view of a cluster without a leader: %+v", o.View())
		}
		lagging.Authority = true
		if o.setView(addressOf(1), lagging); o.View().Version != lagging.Version {
			t.Errorf("got %+v, want the view of the new cluster", o.View())
		}
	})
}

// TestObserverWithoutMembers checks that the authority of a leader ends when no member answers, and
// that an observer then takes the view of a cluster whose stores were restored from older copies.
func TestObserverWithoutMembers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		o := w.startObserver(0)
		defer o.Close()
		restored := o.View()
		later := restored
		later.Version += 5
		o.setView(addressOf(0), later)
		o.mu.Lock()
		led := o.led
		o.mu.Unlock()
		for _, n := range w.nodes {
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for v := range o.Views(ctx) {
			if !v.Authority {
				break
			}
		}
		if took := time.Since(began); o.View().Authority || took > 10*time.Second {
			t.Errorf("after %v: %+v, want no authority within 10 s", took, o.View())
		}
		select {
		case <-led:
		default:
			t.Error("the leader has not ended")
		}
		if o.setView(addressOf(1), restored); o.View().Version != restored.Version {
			t.Errorf("got %+v, want the view of the restored cluster", o.View())
		}
	})
}

func TestObserverFindsNoMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := memnet.New()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := Start(ctx, Config{
			Cluster: cluster.DefaultCluster, Members: []string{"127.0.0.1:7001"},
			Transport: func(transport.Config) (transport.Network, error) {
				return net.Listen(member.Address{Host: "127.0.0.1", Port: 9000})
			},
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Start: got %v, want the cause of the context", err)
		}
	})
}

// TestObserverWaitsForTheCluster checks that an observer does not take the view of a node that has
// not joined: it has no members, so all calls to members would fail.
func TestObserverWaitsForTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: memnet.New(), nodes: make([]*cluster.Node, 2)}
		started := make(chan error)
		for i := range w.nodes {
			go func() {
				time.Sleep(time.Duration(i) * 10 * time.Second)
				n, err := w.startNode(i)
				w.nodes[i] = n
				started <- err
			}()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		o, err := Start(ctx, Config{
			Cluster: cluster.DefaultCluster, Members: []string{addressOf(0).String()},
			Transport: func(transport.Config) (transport.Network, error) {
				return w.net.Listen(member.Address{Host: "127.0.0.1", Port: 9000})
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if v := o.View(); v.ClusterID.IsZero() || len(v.Members) == 0 {
			t.Errorf("the first view is %+v", v)
		}
		for range 2 {
			if err := o.Close(); err != nil {
				t.Errorf("Close: got %v, want nil both times", err)
			}
		}
		for range w.nodes {
			if err := <-started; err != nil {
				t.Error(err)
			}
		}
		for _, n := range w.nodes {
			n.Close()
		}
	})
}
