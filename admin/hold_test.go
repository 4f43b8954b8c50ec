// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// trusted is the remaining lease of the nodes in a testCluster.
const trusted = 900 * time.Millisecond

// testCluster consists of three nodes with a shared table of records, each with a server, in a
// synctest bubble.
type testCluster struct {
	t     *testing.T
	table *record.Memory
	nodes [3]*testNode
	ends  atomic.Pointer[time.Time] // when the lease ends; nil if it is extended
}

// remaining returns the remaining lease of the nodes.
func (a *testCluster) remaining() time.Duration {
	if ends := a.ends.Load(); ends != nil {
		return max(0, time.Until(*ends))
	}
	return trusted
}

// testNode is a node of a testCluster with an in-memory listener whose connections are unbuffered.
type testNode struct {
	saying
	noLeader atomic.Pointer[string] // its Status.NoLeader; nil for ""
	store    record.Store
	dialed   chan net.Conn
	closed   chan struct{}
	stop     context.CancelFunc
	done     chan error
}

func (n *testNode) Records() record.Store { return n.store }

func (n *testNode) Status() cluster.Status {
	s := n.status
	if why := n.noLeader.Load(); why != nil {
		s.NoLeader = *why
	}
	return s
}

// recordsUnder returns the records under a prefix.
func (n *testNode) recordsUnder(prefix string) []member.Record {
	records, _ := n.store.List(context.Background(), prefix)
	return records
}

func (n *testNode) Accept() (net.Conn, error) {
	select {
	case c := <-n.dialed:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Events yields nothing until the node is closed.
func (n *testNode) Events(context.Context) iter.Seq[cluster.Event] {
	return func(func(cluster.Event) bool) { <-n.closed }
}

func (n *testNode) Close() error   { close(n.closed); return nil }
func (n *testNode) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

func inCluster(t *testing.T, test func(*testing.T, *testCluster)) {
	t.Helper()
	inClusterOver(t, func(s record.Store) record.Store { return s }, test)
}

// inClusterOver is like inCluster, but wraps the store of each node by calling the function over.
func inClusterOver(
	t *testing.T, over func(record.Store) record.Store, test func(*testing.T, *testCluster),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &testCluster{t: t, table: record.NewMemory()}
		var roster member.Roster
		for i := range a.nodes {
			m := member.Member{Name: fmt.Sprint("n", i), Status: member.Active}
			m.Address = trioAddress(i)
			roster = append(roster, m)
		}
		for i := range a.nodes {
			n := &testNode{
				store:  a.table.Store(trioAddress(i).String()),
				dialed: make(chan net.Conn), closed: make(chan struct{}), done: make(chan error, 1),
			}
			n.status.Self, n.status.View.Members = roster[i], roster
			if i < 2 {
				n.status.Token = member.Token{Version: 1} // node 2 knows no leader
			}
			var ctx context.Context
			ctx, n.stop = context.WithCancel(context.Background())
			h := New(n, "", WithWrite(n, nil), WithJobs(over(n.store), a.remaining))
			go func() { n.done <- Serve(ctx, n, h) }()
			a.nodes[i] = n
		}
		test(t, a)
		for _, n := range a.nodes {
			n.stop()
			<-n.done
		}
	})
}

// cable is the client side of a connection. Its network may delay it.
type cable struct {
	net.Conn
	*network
}

// network delays bytes to a client until its channel is closed.
type network struct{ flows atomic.Pointer[chan struct{}] }

func newNetwork() *network {
	n := &network{}
	close(n.stall())
	return n
}

// stall delays bytes until the returned channel is closed.
func (n *network) stall() chan struct{} {
	flows := make(chan struct{})
	n.flows.Store(&flows)
	return flows
}

func (w cable) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	<-*w.flows.Load()
	return n, err
}

// client returns a client of node i over a network.
func (a *testCluster) client(i int, over *network) *adminclient.Client {
	a.t.Helper()
	return a.clientBy(a.dialer(i, over))
}

// dialer returns a function that connects to node i over a network.
func (a *testCluster) dialer(i int, over *network) func(context.Context, string, string) (net.Conn,
	error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case a.nodes[i].dialed <- there:
			return cable{here, over}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (a *testCluster) clientBy(
	dial func(context.Context, string, string) (net.Conn, error),
) *adminclient.Client {
	a.t.Helper()
	c, err := adminclient.New("memory:1", adminclient.WithDial(dial),
		adminclient.WithCaller("web1 pid 7"))
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

// attempt is a call of Lock or Elect with a function controlled by the test.
type attempt struct {
	t        *testing.T
	seen     chan *adminapi.Holder
	began    chan adminapi.RecordToken
	ended    chan error             // causes of the contexts passed to the function
	leave    chan error             // the next result of the function
	over     chan error             // the result of the call
	noLeader atomic.Pointer[string] // the last that a waiting caller learned
	// cleanup is how long the function runs after its context has ended.
	cleanup time.Duration
}

func newAttempt(t *testing.T) *attempt {
	return &attempt{
		t: t, seen: make(chan *adminapi.Holder, 16), began: make(chan adminapi.RecordToken, 16),
		ended: make(chan error, 16), leave: make(chan error, 16), over: make(chan error, 1),
		cleanup: time.Millisecond,
	}
}

// work is the function of the attempt. It returns when the test asks it to, or shortly after its
// context ends.
func (a *attempt) work(ctx context.Context, token adminapi.RecordToken) error {
	a.began <- token
	select {
	case err := <-a.leave:
		return err
	case <-ctx.Done():
		a.ended <- context.Cause(ctx)
		time.Sleep(a.cleanup)
		return errors.New("stopped")
	}
}

func (a *testCluster) lock(ctx context.Context, c *adminclient.Client, job, name string) *attempt {
	return a.requestPermit(ctx, c, job, name, 0)
}

// requestPermit is like lock, but for a permit if permits is not 0.
func (a *testCluster) requestPermit(
	ctx context.Context, c *adminclient.Client, job, name string, permits int,
) *attempt {
	at := newAttempt(a.t)
	r := adminapi.LockRequest{Latch: name, Permits: permits}
	go func() {
		at.over <- c.Lock(ctx, job, r, func(w adminapi.Waiting) {
			at.noLeader.Store(&w.NoLeader)
			at.seen <- w.Holder
		}, at.work)
	}()
	synctest.Wait()
	return at
}

func (a *testCluster) elect(ctx context.Context, c *adminclient.Client, job string) *attempt {
	at := newAttempt(a.t)
	go func() {
		at.over <- c.Elect(ctx, job, func(h *adminapi.Holder) { at.seen <- h }, at.work)
	}()
	synctest.Wait()
	return at
}

// works waits until the function is called.
func (a *attempt) works() adminapi.RecordToken {
	a.t.Helper()
	select {
	case token := <-a.began:
		return token
	case err := <-a.over:
		a.t.Fatalf("returned %v, want it to be held", err)
	case <-time.After(time.Minute):
		a.t.Fatal("not held within a minute")
	}
	return adminapi.RecordToken{}
}

// waits checks that the function is not called.
func (a *attempt) waits() {
	a.t.Helper()
	synctest.Wait()
	if len(a.began) > 0 {
		a.t.Fatal("it is held, want it to wait")
	}
}

// lost waits for the end of the function's context, and checks its cause.
func (a *attempt) lost(want string) {
	a.t.Helper()
	err := <-a.ended
	told, _ := errors.AsType[*adminclient.Error](err)
	if !strings.Contains(err.Error(), want) && (told == nil || told.Code != want) {
		a.t.Errorf("lost with %+v, want %q", err, want)
	}
}

// TestLock checks that one caller at a time holds the lock, through any node, and that tokens grow.
func TestLock(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		first := a.lock(t.Context(), a.client(0, newNetwork()), "lock", "x y/z")
		if h := <-first.seen; h != nil {
			t.Errorf("held by %+v at first, want nil", h)
		}
		token := first.works()
		second := a.lock(t.Context(), a.client(1, newNetwork()), "lock", "x y/z")
		want := &adminapi.Holder{Name: "n0", Address: trioAddress(0).String(), Token: token}
		if diff := cmp.Diff(want, <-second.seen); diff != "" {
			t.Errorf("waiting: -want +got:\n%s", diff)
		}
		same := a.lock(t.Context(), a.client(0, newNetwork()), "lock", "x y/z")
		other := a.lock(t.Context(), a.client(0, newNetwork()), "lock", "other")
		other.works()
		if h := <-same.seen; h == nil || *h != *want {
			t.Errorf("waiting at the node of the holder: %+v, want %+v", h, want)
		}
		<-other.seen
		time.Sleep(time.Hour) // the holder gets keep-alives, waiting callers get comments
		second.waits()
		same.waits()
		jobs, err := a.client(2, newNetwork()).Jobs(t.Context())
		if err != nil || len(jobs) != 1 || len(jobs[0].Latches) != 2 ||
			jobs[0].Latches[1] != (adminapi.Latch{Name: "x y/z", Holder: *want}) || jobs[0].Leader != nil {
			t.Errorf("jobs: %+v, %v", jobs, err)
		}
		first.leave <- errors.New("mine")
		if err := <-first.over; err == nil || err.Error() != "mine" {
			t.Errorf("got %v, want the error of the function", err)
		}
		for range 2 {
			var next *attempt
			var got adminapi.RecordToken
			select {
			case got = <-second.began:
				next = second
			case got = <-same.began:
				next = same
			}
			if got.Version < token.Version || got.Revision <= token.Revision {
				t.Errorf("token %+v after %+v", got, token)
			}
			token = got
			next.leave <- nil
			if err := <-next.over; err != nil {
				t.Error(err)
			}
		}
		other.leave <- nil
		<-other.over
	})
}

// TestLockReportsNoLeader checks that a waiting caller learns that there is no leader, and again
// when there is one. The holder that the node shows may have ended long ago.
func TestLockReportsNoLeader(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		first := a.lock(t.Context(), a.client(0, newNetwork()), "lock", "x")
		first.works()
		second := a.lock(t.Context(), a.client(1, newNetwork()), "lock", "x")
		for _, want := range []string{"", "needs 2 of the 3 voters", ""} {
			a.nodes[1].noLeader.Store(&want)
			time.Sleep(adminapi.KeepAliveInterval + 2*settleInterval)
			if got := *second.noLeader.Load(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if got := len(second.seen); got != 3 {
			t.Errorf("%d events, want one at first and one for each change", got)
		}
		first.leave <- nil
		<-first.over
		second.works()
		second.leave <- nil
		<-second.over
	})
}

// TestLockReportsHolder checks that a waiting caller learns the holder immediately and after each
// change. A caller is never reported to itself as the holder.
func TestLockReportsHolder(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		first := a.lock(t.Context(), a.client(0, newNetwork()), "lock", "x")
		<-first.seen
		want := &adminapi.Holder{Name: "n0", Address: trioAddress(0).String(), Token: first.works()}
		second := a.lock(t.Context(), a.client(1, newNetwork()), "lock", "x")
		third := a.lock(t.Context(), a.client(2, newNetwork()), "lock", "x")
		for _, at := range []*attempt{second, third} {
			if diff := cmp.Diff(want, <-at.seen); diff != "" {
				t.Errorf("at first: -want +got:\n%s", diff)
			}
		}
		first.leave <- nil
		<-first.over
		time.Sleep(time.Minute)
		holds, waits, i := second, third, 1
		if len(holds.began) == 0 {
			holds, waits, i = third, second, 2
		}
		want = &adminapi.Holder{Name: fmt.Sprint("n", i), Address: trioAddress(i).String(),
			Token: holds.works()}
		if got := len(waits.seen); got != 1 {
			t.Fatalf("got %d changes, want one", got)
		}
		if diff := cmp.Diff(want, <-waits.seen); diff != "" {
			t.Errorf("another holder: -want +got:\n%s", diff)
		}
		holds.leave <- nil
		waits.works()
		time.Sleep(time.Minute)
		if len(first.seen)+len(holds.seen)+len(waits.seen) > 0 {
			t.Error("got its own lock, or a change after that")
		}
		waits.leave <- nil
		<-holds.over
		<-waits.over
	})
}

// TestLockLost checks that the context of the function ends without delay and that Lock returns the
// cause.
func TestLockLost(t *testing.T) {
	for _, c := range []struct {
		want string
		end  func(a *testCluster)
	}{
		{adminapi.CodeLeaseEnded, func(a *testCluster) { a.table.Expire(trioAddress(0).String()) }},
		{adminapi.CodeNotHeld, func(a *testCluster) {
			_, err := a.nodes[1].store.Session(nil).Commit(a.t.Context(),
				record.Op{Kind: record.Drop, Key: "latch/lock/latch/x"})
			if err != nil {
				a.t.Error(err)
			}
		}},
		{"the node or its admin API has stopped", func(a *testCluster) { a.nodes[0].stop() }},
	} {
		inCluster(t, func(t *testing.T, a *testCluster) {
			at := a.lock(t.Context(), a.client(0, newNetwork()), "lock", "x")
			at.works()
			began := time.Now()
			c.end(a)
			at.lost(c.want)
			if took := time.Since(began); took > 0 {
				t.Errorf("%s: after %v, want no delay", c.want, took)
			}
			told := <-at.over
			if e, ok := errors.AsType[*adminclient.Error](told); !strings.Contains(told.Error(), c.want) &&
				(!ok || e.Code != c.want) {
				t.Errorf("Lock returned %v, want %s", told, c.want)
			}
			next := a.lock(t.Context(), a.client(1, newNetwork()), "lock", "x")
			next.works()
			next.leave <- nil
			<-next.over
		})
	}
}

// TestLockExpires checks that, without an EventAlive, the context of the function ends within
// TrustedMS, and that later events have no effect.
func TestLockExpires(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		over := newNetwork()
		at := a.lock(t.Context(), a.client(0, over), "lock", "x")
		at.works()
		time.Sleep(trusted/3*5 + trusted/6) // halfway to the sixth EventAlive
		flows := over.stall()
		last := time.Now().Add(-trusted / 6)
		at.lost("not confirmed in time")
		if got := time.Since(last); got != trusted {
			t.Errorf("ended %v after the last EventAlive, want %v", got, trusted)
		}
		close(flows)
		if err := <-at.over; !errors.Is(err, adminclient.ErrUntrusted) {
			t.Errorf("Lock: %v, want %v", err, adminclient.ErrUntrusted)
		}
	})
}

// TestLockOfDeadCaller checks that the lock is released without delay if the connection ends, and
// after a timeout if the caller stops reading.
func TestLockOfDeadCaller(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		over := newNetwork()
		var conn net.Conn
		dial := a.dialer(0, over)
		c := a.clientBy(func(ctx context.Context, network, addr string) (net.Conn, error) {
			var err error
			conn, err = dial(ctx, network, addr)
			return conn, err
		})
		next := func(within time.Duration) {
			t.Helper()
			began := time.Now()
			at := a.lock(t.Context(), a.client(1, newNetwork()), "lock", "x")
			at.works()
			if took := time.Since(began); took > within {
				t.Errorf("the next caller acquires it after %v, want at most %v", took, within)
			}
			at.leave <- nil
			<-at.over
		}
		at := a.lock(t.Context(), c, "lock", "x")
		at.works()
		conn.Close()
		next(0)
		<-at.over

		at = a.lock(t.Context(), c, "lock", "x")
		at.works()
		flows := over.stall() // the caller is alive but stops reading
		next(streamTimeout + time.Second)
		close(flows)
		<-at.over

		ctx, stop := context.WithCancelCause(t.Context())
		at = a.lock(ctx, c, "lock", "x")
		at.works()
		waits := a.lock(ctx, a.client(2, newNetwork()), "lock", "x")
		waits.waits()
		stop(errors.New("enough"))
		at.lost("enough") // the lock is held until the function has returned
		if err := <-waits.over; err.Error() != "enough" {
			t.Errorf("a caller that waited got %v, want the cause of its context", err)
		}
		<-at.over
		next(0)
	})
}

// TestManyLocks checks that the number of callers is limited, and that each one that leaves makes
// room for another.
func TestManyLocks(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var all []*attempt
		for i := range maxHolds {
			all = append(all, a.lock(ctx, a.client(0, newNetwork()), "lock", fmt.Sprint(i%3)))
		}
		err := a.client(0, newNetwork()).Elect(ctx, "job", func(*adminapi.Holder) {}, nil)
		if told, ok := errors.AsType[*adminclient.Error](err); !ok || told.Code != adminapi.CodeBusy {
			t.Errorf("one too many: %v, want %s", err, adminapi.CodeBusy)
		}
		held := 0
		for _, at := range all {
			held += len(at.began)
		}
		if held != 3 {
			t.Errorf("%d hold one of three latches", held)
		}
		stop()
		for _, at := range all {
			<-at.over
		}
		synctest.Wait()
		for i := range maxHolds {
			at := a.elect(t.Context(), a.client(0, newNetwork()), fmt.Sprint("job", i))
			at.works()
			at.leave <- nil
			<-at.over
		}
		synctest.Wait()
		if records := a.nodes[0].recordsUnder(""); len(records) != 0 {
			t.Errorf("remaining: %+v", records)
		}
	})
}

// TestElect checks that one caller leads at a time, that a disabled member does not lead until it
// is enabled, and that all readers see each change.
func TestElect(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		ctx, stop := context.WithCancelCause(t.Context())
		looker := a.client(2, newNetwork())
		var told []string
		looked := make(chan error, 1)
		go func() {
			for h, err := range looker.JobLeader(ctx, "job") {
				if err != nil {
					looked <- err
					return
				}
				if h != nil { // a short gap between leaders may go unreported
					told = append(told, h.Name)
				}
			}
			looked <- nil
		}()
		synctest.Wait()
		c0, c1 := a.client(0, newNetwork()), a.client(1, newNetwork())
		first := a.elect(ctx, c0, "job")
		token := first.works()
		if h := <-first.seen; h != nil && h.Token != token {
			t.Errorf("led by %+v at first, want nil or itself", h)
		}
		second := a.elect(ctx, c1, "job")
		second.waits()
		if h := <-second.seen; h == nil || h.Name != "n0" || h.Token != token {
			t.Errorf("led by %+v, want n0 by %+v", h, token)
		}
		for _, c := range []*adminclient.Client{c0, c1} { // the second call has no effect
			if err := c.Disable(t.Context(), "job", adminapi.CandidateRequest{Member: "n0"}); err != nil {
				t.Error(err)
			}
		}
		first.lost(adminapi.CodeDisabled)
		next := second.works()
		if next.Revision <= token.Revision {
			t.Errorf("token %+v after %+v", next, token)
		}
		first.waits()
		if err := c0.Enable(t.Context(), "job",
			adminapi.CandidateRequest{Member: trioAddress(0).String()}); err != nil {
			t.Error(err)
		}
		first.waits()
		second.leave <- errors.New("done")
		if err := <-second.over; err == nil || err.Error() != "done" {
			t.Errorf("Elect: %v, want the error of the function", err)
		}
		if again := first.works(); again.Revision <= next.Revision {
			t.Errorf("token %+v after %+v", again, next)
		}
		a.table.Expire(trioAddress(0).String())
		first.lost(adminapi.CodeLeaseEnded)
		first.works() // there is no other caller
		synctest.Wait()
		stop(errors.New("enough"))
		first.lost("enough")
		if err := <-first.over; err == nil || err.Error() != "stopped" {
			t.Errorf("Elect: %v, want the error of the function", err)
		}
		if err := <-looked; err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"n0", "n1", "n0", "n0"}, told); diff != "" {
			t.Errorf("seen: -want +got:\n%s", diff)
		}
	})
}

// TestElectOneCallAtATime checks that the function is not called again before its last call has
// returned, even if the node leads again.
func TestElectOneCallAtATime(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		calls, running := 0, 0
		over := make(chan error, 1)
		go func() {
			over <- a.client(0, newNetwork()).Elect(t.Context(), "job", func(*adminapi.Holder) {},
				func(ctx context.Context, _ adminapi.RecordToken) error {
					if running++; running > 1 {
						t.Errorf("%d concurrent calls", running)
					}
					defer func() { running-- }()
					if calls++; calls > 3 {
						return nil
					}
					<-ctx.Done()
					time.Sleep(10 * time.Second)
					return nil
				})
		}()
		for range 3 {
			time.Sleep(20 * time.Second)
			a.table.Expire(trioAddress(0).String())
		}
		if err := <-over; err != nil || calls != 4 {
			t.Errorf("%d calls, and %v, want 4", calls, err)
		}
	})
}

// TestElectWithoutItsNode checks that Elect returns if the node stops.
func TestElectWithoutItsNode(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		leads := a.elect(t.Context(), a.client(0, newNetwork()), "job")
		leads.works()
		waits := a.elect(t.Context(), a.client(0, newNetwork()), "job")
		waits.waits()
		looked := make(chan error, 1)
		go func() {
			for _, err := range a.client(0, newNetwork()).JobLeader(t.Context(), "job") {
				if err != nil {
					looked <- err
				}
			}
		}()
		synctest.Wait()
		a.nodes[0].stop()
		leads.lost("has stopped")
		for _, over := range []chan error{leads.over, waits.over, looked} {
			if err := <-over; !errors.Is(err, adminclient.ErrEnded) {
				t.Errorf("got %v, want %v", err, adminclient.ErrEnded)
			}
		}
	})
}

// TestElectAfterExpiry lets the leadership of a caller expire. If the node responds, the caller
// campaigns again, whether or not the node has lost the job. If the node does not respond, Elect
// returns.
func TestElectAfterExpiry(t *testing.T) {
	for _, c := range []struct {
		name    string
		stall   time.Duration
		expires bool
		ends    time.Duration // from the stall to the return of Elect; 0: it continues
	}{
		{"the node has lost it", trusted + time.Second, true, 0},
		{"the node holds it", trusted + time.Second, false, 0},
		{"the node is silent", time.Minute, true, trusted + adminclient.ClientTimeout},
	} {
		inCluster(t, func(t *testing.T, a *testCluster) {
			over := newNetwork()
			at := a.elect(t.Context(), a.client(0, over), "job")
			token := at.works()
			flows := over.stall()
			began := time.Now()
			if c.expires {
				a.table.Expire(trioAddress(0).String())
			}
			at.lost("not confirmed in time")
			if took := time.Since(began); took != trusted {
				t.Errorf("%s: lost after %v, want %v", c.name, took, trusted)
			}
			free := sync.OnceFunc(func() { close(flows) })
			time.AfterFunc(c.stall-trusted, free)
			if c.ends == 0 {
				if again := at.works(); !member.Token(token).Less(member.Token(again)) {
					t.Errorf("%s: token %+v after %+v", c.name, again, token)
				}
				at.leave <- nil
			}
			if err := <-at.over; errors.Is(err, adminclient.ErrUntrusted) != (c.ends > 0) {
				t.Errorf("%s: Elect: %v", c.name, err)
			}
			if took := time.Since(began); c.ends > 0 && took != c.ends {
				t.Errorf("%s: returned after %v, want %v", c.name, took, c.ends)
			}
			free()
		})
	}
}

// TestElectThroughLossesOfQuorum ends the lease of the node several times, always while an
// EventAlive is in transit. Each time, the caller must lose the job and then lead it again.
func TestElectThroughLossesOfQuorum(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		over := newNetwork()
		at := newAttempt(t)
		go func() {
			at.over <- a.client(0, over).Elect(t.Context(), "job", func(*adminapi.Holder) {}, at.work)
		}()
		for phase := time.Duration(0); phase < trusted/3; phase += time.Millisecond {
			at.works()
			time.Sleep(time.Second + phase)
			a.ends.Store(new(time.Now().Add(trusted)))
			time.Sleep(trusted - 5*time.Millisecond)
			flows := over.stall()
			time.Sleep(5 * time.Millisecond)
			a.table.Expire(trioAddress(0).String())
			time.Sleep(time.Millisecond)
			close(flows)
			at.lost("")
			a.ends.Store(nil)
		}
		at.works()
		at.leave <- nil
		if err := <-at.over; err != nil {
			t.Errorf("Elect: %v", err)
		}
	})
}

// serveAPI serves the nodes of a trio until stop is called.
func (w *trio) serveAPI() (a *testCluster, stop func()) {
	a = &testCluster{t: w.t}
	for i, node := range w.nodes {
		n := &testNode{
			dialed: make(chan net.Conn), closed: make(chan struct{}), done: make(chan error, 1),
		}
		var ctx context.Context
		ctx, n.stop = context.WithCancel(context.Background())
		h := New(node, "", WithWrite(node, nil), WithJobs(node.Records(), node.HoldRemaining))
		go func() { n.done <- Serve(ctx, n, h) }()
		a.nodes[i] = n
	}
	return a, func() {
		for _, n := range a.nodes {
			n.stop()
			<-n.done
		}
	}
}

// TestLeavingNodeWaitsForItsCallers checks that a node that leaves keeps what it holds for a caller
// until the work of the caller has ended. Another caller gets it soon afterwards.
func TestLeavingNodeWaitsForItsCallers(t *testing.T) {
	for name, hold := range map[string]func(context.Context, *adminclient.Client, *attempt) error{
		"lock": func(ctx context.Context, c *adminclient.Client, at *attempt) error {
			return c.Lock(ctx, "job", adminapi.LockRequest{Latch: "x"},
				func(adminapi.Waiting) {}, at.work)
		},
		"elect": func(ctx context.Context, c *adminclient.Client, at *attempt) error {
			return c.Elect(ctx, "job", func(*adminapi.Holder) {}, at.work)
		},
	} {
		inTrio(t, func(t *testing.T, w *trio) {
			a, stop := w.serveAPI()
			defer stop()
			first, second := newAttempt(t), newAttempt(t)
			first.cleanup = 5 * time.Second
			go func() { first.over <- hold(t.Context(), a.client(0, newNetwork()), first) }()
			first.works()
			go func() { second.over <- hold(t.Context(), a.client(1, newNetwork()), second) }()
			left := make(chan error, 1)
			go func() { left <- w.nodes[0].Leave(t.Context()) }()
			first.lost(adminapi.CodeClosed)
			time.Sleep(first.cleanup - time.Millisecond)
			second.waits()
			began := time.Now()
			if err := <-left; err != nil {
				t.Errorf("%s: Leave: %v", name, err)
			}
			second.works()
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("%s: the next holder %v after the work had ended", name, took)
			}
			if err := <-first.over; err == nil {
				t.Errorf("%s: no error although the node left", name)
			}
			second.leave <- nil
			<-second.over
		})
	}
}

// TestHoldForReal makes the node of a caller leave or lose its majority. The next holder must
// acquire the lock only after the context of the caller has ended.
func TestHoldForReal(t *testing.T) {
	inTrio(t, func(t *testing.T, w *trio) {
		a, stop := w.serveAPI()
		defer stop()
		first := a.lock(t.Context(), a.client(0, newNetwork()), "lock", "x")
		token := first.works()
		second := a.lock(t.Context(), a.client(1, newNetwork()), "lock", "x")
		for i := range w.nodes {
			w.net.Cut(trioAddress(0), trioAddress(i))
			w.net.Cut(trioAddress(i), trioAddress(0))
		}
		began := time.Now()
		first.lost("") // the report of the node and the expiry coincide
		c := cluster.DefaultConfig().WithDefaults()
		if took := time.Since(began); took > c.LeaseTimeout+c.LeaderTimeout {
			t.Errorf("lost after %v, want within HoldTimeout", took)
		}
		if len(second.began) > 0 {
			t.Error("the second caller holds it before the first has lost it")
		}
		next := second.works()
		if next.Version < token.Version || next == token {
			t.Errorf("token %+v after %+v", next, token)
		}
		third := a.elect(t.Context(), a.client(1, newNetwork()), "job")
		third.works()
		if err := a.client(1, newNetwork()).Disable(t.Context(), "job",
			adminapi.CandidateRequest{Member: "n1"}); err != nil {
			t.Error(err)
		}
		third.lost(adminapi.CodeDisabled)
		if err := w.nodes[1].Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		second.lost(adminapi.CodeClosed)
		for _, at := range []*attempt{first, second, third} {
			<-at.over
		}
	})
}
