// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/internal/lowest"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/receiver"
)

// groupCluster is a cluster of three nodes that serve groups.
type groupCluster struct {
	*testCluster
	trio  *trio
	stops []func()
	calls sync.WaitGroup
}

func inGroupCluster(t *testing.T, test func(*testing.T, *groupCluster)) {
	t.Helper()
	var groups [3]*election.Groups
	register := func(i int, mux *receiver.Mux) { groups[i] = election.NewGroups(mux) }
	inTrioThatHandles(t, register, func(t *testing.T, w *trio) {
		a := &groupCluster{testCluster: &testCluster{t: t}, trio: w}
		for i, node := range w.nodes {
			n := &testNode{
				dialed: make(chan net.Conn), closed: make(chan struct{}), done: make(chan error, 1),
			}
			var ctx context.Context
			ctx, n.stop = context.WithCancel(context.Background())
			h := New(node, "", WithWrite(node, nil), WithGroups(groups[i].List,
				func(name string, o election.Options) (*leader.Candidate, error) {
					return groups[i].Open(node, name, o)
				}))
			go func() { n.done <- Serve(ctx, n, h) }()
			a.nodes[i] = n
		}
		defer a.calls.Wait()
		test(t, a)
		for _, stop := range a.stops {
			stop()
		}
		for _, n := range a.nodes {
			n.stop()
			<-n.done
		}
	})
}

// byLowest is a request with short durations.
var byLowest = adminapi.GroupRequest{
	Strategy: "lowest", GraceMS: 3000, SampleMS: 500, AliveMS: 2000, CampaignMS: 1000, HoldMS: 20_000,
}

func (a *groupCluster) group(ctx context.Context, i int, r adminapi.GroupRequest) *attempt {
	return a.groupOver(ctx, i, newNetwork(), r)
}

func (a *groupCluster) groupOver(
	ctx context.Context, i int, over *network, r adminapi.GroupRequest,
) *attempt {
	at, c := newAttempt(a.t), a.client(i, over)
	ctx, stop := context.WithCancel(ctx)
	a.stops = append(a.stops, stop)
	a.calls.Go(func() {
		at.over <- c.Group(ctx, "a/b c", r, func(h *adminapi.Holder) { at.seen <- h }, at.work)
	})
	synctest.Wait()
	return at
}

// refused checks that the call returned an error with this status and code.
func (a *attempt) refused(status int, code string) {
	a.t.Helper()
	err := <-a.over
	told, _ := errors.AsType[*adminclient.Error](err)
	if told == nil || told.Status != status || told.Code != code {
		a.t.Errorf("got %v, want %d %s", err, status, code)
	}
}

// TestGroupMoves checks that only one of three callers leads. After the connection of the first
// caller ends, another caller leads. The first caller does not replace that leader when it returns.
func TestGroupMoves(t *testing.T) {
	inGroupCluster(t, func(t *testing.T, a *groupCluster) {
		ctx, stop := context.WithCancel(t.Context())
		first := a.group(ctx, 0, byLowest)
		second, third := a.group(t.Context(), 1, byLowest), a.group(t.Context(), 2, byLowest)
		token := first.works()
		time.Sleep(time.Hour)
		second.waits()
		third.waits()
		var last *adminapi.Holder
		for len(second.seen) > 0 {
			last = <-second.seen
		}
		if last == nil || last.Name != "n0" || last.Token != token {
			t.Errorf("n1 sees the leader %+v, want n0 with %v", last, token)
		}
		began := time.Now()
		stop()
		<-first.over
		if next := second.works(); next.Revision <= token.Revision && next.Version <= token.Version {
			t.Errorf("token %v after %v", next, token)
		}
		if took := time.Since(began); took > 1500*time.Millisecond {
			t.Errorf("the next leader took %v, want at most Campaign and a message", took)
		}
		again := a.group(t.Context(), 0, byLowest)
		time.Sleep(time.Minute)
		again.waits()
		third.waits()
	})
}

// TestGroupInUse checks that a node refuses a second caller for the same group.
func TestGroupInUse(t *testing.T) {
	inGroupCluster(t, func(t *testing.T, a *groupCluster) {
		static := adminapi.GroupRequest{Strategy: "static"}
		first := a.group(t.Context(), 0, static)
		first.works()
		a.group(t.Context(), 0, static).refused(http.StatusConflict, adminapi.CodeGroupInUse)
		a.group(t.Context(), 0, byLowest).refused(http.StatusConflict, adminapi.CodeGroupInUse)
		first.leave <- nil
		if err := <-first.over; err != nil {
			t.Error(err)
		}
		a.group(t.Context(), 0, static).works()
	})
}

// TestGroupEndsWithItsNode checks for three strategies that the work ends when the node stops.
func TestGroupEndsWithItsNode(t *testing.T) {
	for _, strategy := range []string{"static", "lowest", "quorum"} {
		inGroupCluster(t, func(t *testing.T, a *groupCluster) {
			i := 0
			if strategy == "quorum" {
				i = slices.IndexFunc(a.trio.nodes[:], func(n *cluster.Node) bool {
					return n.Status().LeaseRemaining > 0
				})
			}
			r := byLowest
			if strategy != "lowest" {
				r = adminapi.GroupRequest{Strategy: strategy}
			}
			at := a.group(t.Context(), i, r)
			at.works()
			if err := a.trio.nodes[i].Close(); err != nil {
				t.Fatal(err)
			}
			at.lost(adminapi.CodeClosed)
			if err := <-at.over; err == nil {
				t.Errorf("%s: no error", strategy)
			}
			a.group(t.Context(), i, r).refused(http.StatusServiceUnavailable, adminapi.CodeClosed)
		})
	}
}

// TestGroupOfASilentNode checks that the work ends if the caller no longer receives data from its
// node. The work must end before another member can lead.
func TestGroupOfASilentNode(t *testing.T) {
	inGroupCluster(t, func(t *testing.T, a *groupCluster) {
		over := newNetwork()
		at := a.groupOver(t.Context(), 0, over, byLowest)
		at.works()
		time.Sleep(time.Minute)
		began := time.Now()
		flows := over.stall()
		at.lost("not confirmed in time")
		if took := time.Since(began); took > time.Second {
			t.Errorf("the work ended after %v, want at most half of Alive", took)
		}
		close(flows)
		at.works() // the connection was replaced
	})
}

// TestGroupRetries checks that failed work runs again in the same term, and that another member
// leads when RetryFor has passed.
func TestGroupRetries(t *testing.T) {
	inGroupCluster(t, func(t *testing.T, a *groupCluster) {
		r := byLowest
		r.RetryForMS = 250
		first := a.group(t.Context(), 0, r)
		fail := func() { // the function of an attempt returns after its context has ended
			t.Helper()
			if err := a.client(0, newNetwork()).FailGroup(t.Context(), "a/b c"); err != nil {
				t.Fatal(err)
			}
			first.lost("the work failed")
		}
		token := first.works()
		second := a.group(t.Context(), 1, r)
		fail()
		if again := first.works(); again != token {
			t.Errorf("token %v after %v, want the same term", again, token)
		}
		fail()
		if again := first.works(); again != token {
			t.Errorf("token %v after %v, want the same term", again, token)
		}
		second.waits()
		fail()
		second.works()
		first.waits()
		err := a.client(0, newNetwork()).FailGroup(t.Context(), "a/b c")
		told, _ := errors.AsType[*adminclient.Error](err)
		if told == nil || told.Code != adminapi.CodeNotLeader || told.Status != http.StatusConflict {
			t.Errorf("failure of a caller that does not lead: %v", err)
		}
	})
}

// TestGroupRequests checks that invalid requests are refused before a group is opened.
func TestGroupRequests(t *testing.T) {
	inGroupCluster(t, func(t *testing.T, a *groupCluster) {
		h := New(a.trio.nodes[0], "", WithWrite(a.trio.nodes[0], nil), WithGroups(
			func() []election.Group { return nil },
			func(name string, o election.Options) (*leader.Candidate, error) {
				return election.NewGroups(receiver.NewMux()).Open(a.trio.nodes[0], name, o)
			}))
		for _, c := range []struct{ name, body, want string }{
			{"g", `{}`, `strategy ""`},
			{"g", `{"strategy": "gossip"}`, `strategy "gossip": want quorum, lowest`},
			{"g", `{"strategy": "` + strings.Repeat("x", 9999) + `"}`, "want quorum"},
			{strings.Repeat("n", 129), `{"strategy": "static"}`, "1 to 128 printable characters"},
			{"%0a", `{"strategy": "static"}`, "printable"},
			{"g", `{"strategy": "lowest", "grace_ms": -1}`, "Timing.Grace is -1ms"},
			{"g", `{"strategy": "lowest", "alive_ms": -1e300}`, "Timing.Alive is -"},
			{"g", `{"strategy": "lowest", "hold_ms": 1e300}`, "Timing.Hold is "},
			{"g", `{"strategy": "lowest", "campaign_ms": 1e-9}`, "Timing.Campaign is 0s"},
			{"g", `{"strategy": "lowest", "sample_ms": 16000}`, "at most Timing.Grace"},
			{"g", `{"strategy": "static", "sample_ms": 5}`, "applies only to Lowest"},
			{"g", `{"strategy": "quorum", "retry_for_ms": -5}`, "RetryFor is -5ms"},
			{"g", `{"strategy": 3}`, "invalid body"},
			{"g", `{"strategy": "static", "grace": 3}`, "unknown field"},
		} {
			r := httptest.NewRequest("POST", "/v1/groups/"+c.name+"/elect", strings.NewReader(c.body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			var e adminapi.ErrorBody
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != http.StatusBadRequest ||
				e.Code != adminapi.CodeBadRequest || !strings.Contains(e.Error, c.want) {
				t.Errorf("%.30s %.60s: %d %.300s, want 400 bad_request and %q",
					c.name, c.body, w.Code, w.Body, c.want)
			}
		}
	})
}

// solo implements election.Peers for one member.
type solo struct{}

func (solo) Self() (string, uint64)      { return "a", 1 }
func (solo) Members() []string           { return []string{"a"} }
func (solo) Send(string, lowest.Message) {}

// grouping sends requests that produce every response of the paths for groups.
func (a asked) grouping(t *testing.T, d apiDocument) {
	t.Helper()
	node := leads()
	path, body := "/v1/groups/a/", `{"strategy": "lowest"}`
	with := func(c *leader.Candidate, err error) http.Handler {
		list := func() []election.Group { return nil }
		return New(node, "", WithWrite(node, nil), WithGroups(list,
			func(string, election.Options) (*leader.Candidate, error) { return c, err }))
	}
	for _, what := range []string{"elect", "fail"} {
		a.posting(t, d, with(nil, nil), path+what, "")
	}
	a.ask(t, d, New(node, "", WithWrite(node, nil)), "POST", path+"elect", body)
	a.ask(t, d, with(nil, nil), "POST", path+"fail", "")
	for _, err := range []error{
		election.ErrGroupInUse, fmt.Errorf("of the node: %w", cluster.ErrClosed), errors.New("invalid"),
	} {
		a.ask(t, d, with(nil, err), "POST", path+"elect", body)
	}
	joining := saying{}
	a.ask(t, d, New(joining, "", WithWrite(joining, nil), WithGroups(nil,
		func(string, election.Options) (*leader.Candidate, error) { return nil, nil })),
		"POST", path+"elect", body)
	full := &handler{node: node, actor: node, sameSite: http.NewCrossOriginProtection()}
	WithGroups(nil, func(string, election.Options) (*leader.Candidate, error) {
		return nil, nil
	})(full)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/groups/{group}/elect", full.serveGroup)
	mux.HandleFunc("POST /v1/groups/{group}/fail", full.serveGroupFailure)
	a.ask(t, d, mux, "POST", path+"elect", body) // too many callers: the channels have no buffer
	a.ask(t, d, mux, "POST", path+"fail", "")
	c, _, err := election.Over(solo{}, "a", election.Options{
		Strategy: election.Lowest, Timing: election.Timing{Grace: lowest.MinTiming,
			Sample: lowest.MinTiming, Alive: time.Hour, Campaign: lowest.MinTiming, Hold: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitLeader(t.Context()); err != nil {
		t.Fatal(err)
	}
	full.acts = make(chan struct{}, 1)
	full.groups.setCaller("a", groupCaller{c, make(chan struct{}, 1)})
	a.ask(t, d, mux, "POST", path+"fail", "")
	a.ask(t, d, mux, "POST", path+"fail", "") // does not block
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	a.ask(t, d, with(c, nil), "POST", path+"elect", body) // the group ends immediately
}
