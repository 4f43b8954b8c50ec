// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// trio is a cluster of three nodes in a synctest bubble. The first two call Answer, the last does
// not.
type trio struct {
	t      *testing.T
	net    *memnet.Network
	nodes  [3]*cluster.Node
	others [3]*Others

	register func(i int, mux *receiver.Mux) // adds the test's handlers
}

func trioAddress(i int) member.Address {
	return member.Address{Host: "10.0.0.1", Port: uint16(i + 1)}
}

func inTrio(t *testing.T, test func(*testing.T, *trio)) {
	t.Helper()
	inTrioThatHandles(t, func(int, *receiver.Mux) {}, test)
}

func inTrioThatHandles(
	t *testing.T, register func(int, *receiver.Mux), test func(*testing.T, *trio),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &trio{t: t, net: memnet.New(), register: register}
		var started sync.WaitGroup
		for i := range w.nodes {
			started.Go(func() { w.start(i) })
		}
		started.Wait()
		for i, n := range w.nodes {
			if n == nil {
				continue
			}
			defer n.Close()
			if err := n.WaitActive(t.Context(), len(w.nodes)); err != nil {
				t.Errorf("node %d: %v", i, err)
			}
		}
		if !t.Failed() {
			test(t, w)
		}
	})
}

func (w *trio) start(i int) {
	mux := receiver.NewMux()
	w.register(i, mux)
	c := cluster.Config{
		Addr: trioAddress(i).String(), Name: fmt.Sprint("n", i), Size: len(w.nodes), Insecure: true,
		InsecureAnywhere: true, Receiver: mux,
	}
	use := func(*cluster.Node) {}
	if i < 2 {
		w.others[i] = Answer(mux, "v0.1", nil)
		use = w.others[i].Use
	}
	for s := range w.nodes {
		c.Seeds = append(c.Seeds, trioAddress(s).String())
	}
	n, err := cluster.Start(w.t.Context(), c, cluster.WithLogger(slog.New(slog.DiscardHandler)),
		cluster.WithClock(time.Now), cluster.WithListening(use),
		cluster.WithTransport(func(transport.Config) (transport.Network, error) {
			return w.net.Listen(trioAddress(i))
		}))
	if err != nil {
		w.t.Errorf("start node %d: %v", i, err)
	}
	w.nodes[i] = n
}

// get sends a GET request to the first node.
func (w *trio) get(path string, into any) (code int, body string) {
	w.t.Helper()
	rec := httptest.NewRecorder()
	h := New(w.nodes[0], "v0.1", WithOthers(w.others[0]))
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	if err := json.Unmarshal(rec.Body.Bytes(), into); err != nil {
		w.t.Fatalf("GET %s: %v in %s", path, err, rec.Body)
	}
	return rec.Code, rec.Body.String()
}

// TestOthersAnswer checks that one node responds with the status of the others.
func TestOthersAnswer(t *testing.T) {
	inTrio(t, func(t *testing.T, w *trio) {
		var nodes []adminapi.Entry
		w.get("/v1/nodes", &nodes)
		want := []adminapi.Entry{
			{Name: "n0", Address: trioAddress(0), Alive: true, Self: true},
			{Name: "n1", Address: trioAddress(1), Alive: true, Self: false},
			{Name: "n2", Address: trioAddress(2), Alive: true, Self: false},
		}
		if diff := cmp.Diff(want, nodes); diff != "" {
			t.Errorf("GET /v1/nodes: -want +got:\n%s", diff)
		}
		for _, name := range []string{"n0", "n1"} {
			var s adminapi.Status
			if code, body := w.get("/v1/nodes/"+name+"/status", &s); code != 200 ||
				s.Self.Name != name || s.Active() != 3 || s.Build != "v0.1" {
				t.Errorf("GET /v1/nodes/%s/status: %d %s, want the status of %s", name, code, body, name)
			}
		}
		for name, want := range map[string]string{"n2": adminapi.CodeNoAnswer,
			"n9": adminapi.CodeNotFound} {
			var e adminapi.ErrorBody
			if w.get("/v1/nodes/"+name+"/status", &e); e.Code != want || !strings.Contains(e.Error, name) {
				t.Errorf("GET /v1/nodes/%s/status: %+v, want %s", name, e, want)
			}
		}
	})
}

// TestOthersSilent checks that an isolated member is reported as not responding within askTimeout,
// and later as not alive.
func TestOthersSilent(t *testing.T) {
	inTrio(t, func(t *testing.T, w *trio) {
		for i := range w.nodes {
			w.net.Cut(trioAddress(1), trioAddress(i))
			w.net.Cut(trioAddress(i), trioAddress(1))
		}
		began := time.Now()
		var e adminapi.ErrorBody
		w.get("/v1/nodes/n1/status", &e)
		if took := time.Since(began); e.Code != adminapi.CodeNoAnswer || took > askTimeout {
			t.Errorf("%+v after %v, want %s within %v", e, took, adminapi.CodeNoAnswer, askTimeout)
		}
		time.Sleep(3 * time.Second)
		var nodes []adminapi.Entry
		if w.get("/v1/nodes", &nodes); nodes[1].Alive || !nodes[2].Alive {
			t.Errorf("GET /v1/nodes: %+v, want only n1 not alive", nodes)
		}
	})
}

// TestMemberBuilds checks that /v1/members asks for builds only with ?build, that texts of peers
// are printable, and that members that do not answer delay the response by at most askTimeout.
func TestMemberBuilds(t *testing.T) {
	inTrio(t, func(t *testing.T, w *trio) {
		w.others[1].build = "v0.2\n\x1b[2J" + strings.Repeat("x", maxStatusBytes/2)
		expect := func(path string, want ...string) {
			t.Helper()
			began := time.Now()
			var members []adminapi.Member
			w.get(path, &members)
			var got []string
			for _, m := range members {
				got = append(got, m.Build)
			}
			if len(got) == 3 && len(got[1]) == safetext.MaxPeerTextBytes {
				got[1] = got[1][:len(`v0.2; \x1b[2J`)]
			}
			if diff := cmp.Diff(want, got); diff != "" || time.Since(began) > askTimeout {
				t.Errorf("GET %s after %v: -want +got:\n%s", path, time.Since(began), diff)
			}
		}
		expect("/v1/members?build", "v0.1", `v0.2; \x1b[2J`, "") // n2 does not call Answer
		expect("/v1/members", "", "", "")
		expect("/v1/members?build=0", "", "", "")
		for range maxAsking {
			w.others[0].asking <- struct{}{}
		}
		expect("/v1/members?build", "v0.1", "", "")
		for range maxAsking {
			<-w.others[0].asking
		}
		for i := range w.nodes {
			w.net.Cut(trioAddress(1), trioAddress(i))
			w.net.Cut(trioAddress(i), trioAddress(1))
		}
		expect("/v1/members?build", "v0.1", "", "")
		if n := len(w.others[0].asking); n > 0 {
			t.Errorf("%d slots in use after the response, want 0", n)
		}
	})
}

// TestOthersBounded checks the limits on requests and responses.
func TestOthersBounded(t *testing.T) {
	inTrio(t, func(t *testing.T, w *trio) {
		ctx, from := t.Context(), w.nodes[1].Self()
		a, err := w.others[0].answerStatus(ctx, from, statusQuestion{MostBytes: 16})
		if err == nil {
			t.Errorf("a response of %d bytes for a limit of 16, want an error", len(a.JSON))
		}
		for range maxAsking {
			w.others[0].asking <- struct{}{}
		}
		if _, err := w.others[0].askMember(ctx, trioAddress(1)); !errors.Is(err, errAskBusy) {
			t.Errorf("one request too many: %v, want %v", err, errAskBusy)
		}
	})
}

// TestOthersEarly checks that requests before Use fail.
func TestOthersEarly(t *testing.T) {
	o := Answer(receiver.NewMux(), "v0.1", nil)
	if _, err := o.askMember(t.Context(), trioAddress(1)); !errors.Is(err, errAskEarly) {
		t.Errorf("askMember: %v, want %v", err, errAskEarly)
	}
	_, err := o.answerStatus(t.Context(), member.Member{}, statusQuestion{MostBytes: 1})
	if !errors.Is(err, errAskEarly) {
		t.Errorf("answerStatus: %v, want %v", err, errAskEarly)
	}
}

// namesakes is a node that is not in its view, which has two members of the same name.
type namesakes struct{}

func (namesakes) Records() record.Store { return nil }

func (namesakes) Status() cluster.Status {
	var s cluster.Status
	s.Self.Name, s.Self.Address = "a", trioAddress(0)
	for i := range 2 {
		m := member.Member{Name: "b", Status: member.Active}
		m.Address = trioAddress(i + 1)
		s.View.Members = append(s.View.Members, m)
	}
	return s
}

func (namesakes) Events(context.Context) iter.Seq[cluster.Event] {
	return func(func(cluster.Event) bool) {}
}

// TestNamesakes checks that members of the same name are listed by address, and that a node that
// has not joined is listed too.
func TestNamesakes(t *testing.T) {
	rec := httptest.NewRecorder()
	New(namesakes{}, "").ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/v1/nodes", nil))
	var nodes []adminapi.Entry
	if err := json.Unmarshal(rec.Body.Bytes(), &nodes); err != nil {
		t.Fatal(err)
	}
	want := []adminapi.Entry{
		{Name: "10.0.0.1:2", Address: trioAddress(1), Alive: true, Self: false},
		{Name: "10.0.0.1:3", Address: trioAddress(2), Alive: true, Self: false},
		{Name: "a", Address: trioAddress(0), Alive: true, Self: true},
	}
	if diff := cmp.Diff(want, nodes); diff != "" {
		t.Errorf("GET /v1/nodes: -want +got:\n%s", diff)
	}
}
