// SPDX-License-Identifier: Apache-2.0

//go:build unix

package demo

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/cmd/athena/internal/supervised"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
)

// TestDemoChildren checks that the nodes do not inherit the ATHENA_ variables of the demo.
func TestDemoChildren(t *testing.T) {
	got := withoutSettings([]string{"HOME=/h", "ATHENA_ADMIN=127.0.0.1:1", "ATHENA_SIZE=3",
		"PATH=/bin"})
	if diff := cmp.Diff([]string{"HOME=/h", "PATH=/bin"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// statusOf returns the status of a node that follows the named leader, or no leader if the name is
// "", with the given token.
func statusOf(
	self, leader string, token uint64, members map[string]member.Status,
) *adminapi.Status {
	at := func(name string) (a member.Address) {
		if name != "" {
			a = member.Address{Host: name, Port: 1}
		}
		return a
	}
	s := &adminapi.Status{Token: token, Self: adminapi.Self{Name: self, Address: at(self)}}
	s.View.Leader = at(leader)
	for _, name := range []string{"n1", "n2", "n3"} {
		if status, ok := members[name]; ok {
			s.View.Members = append(s.View.Members,
				adminapi.Member{Name: name, Address: at(name), Status: status})
		}
	}
	return s
}

// trio returns a fleet of three nodes with fake processes.
func trio(out *strings.Builder) *fleet {
	f := &fleet{tell: &narrator{out: out, began: time.Now()}, changed: make(chan struct{})}
	for i, name := range []string{"n1", "n2", "n3"} {
		p := &process{cmd: &exec.Cmd{Process: &os.Process{Pid: 100 + i}}}
		f.nodes = append(f.nodes, &node{name: name, address: name + ":1", proc: p})
	}
	return f
}

// TestNarrator checks that a failover is printed from the reports of the nodes.
func TestNarrator(t *testing.T) { synctest.Test(t, testNarrator) }

func testNarrator(t *testing.T) {
	const up, lost = member.Active, member.Unreachable
	var out strings.Builder
	f := trio(&out)
	all := func(leader string, token uint64, ms map[string]member.Status) {
		for _, n := range f.nodes {
			if n.proc != nil {
				f.onReport(n, supervised.Report{Status: statusOf(n.name, leader, token, ms)})
			}
		}
	}
	all("", 0, map[string]member.Status{"n1": up})
	all("n1", 1, map[string]member.Status{"n1": up, "n2": up, "n3": member.Joining})
	all("n1", 1, map[string]member.Status{"n1": up, "n2": up, "n3": up})
	f.onExit(f.nodes[0], errors.New("signal: killed"))
	all("", 0, map[string]member.Status{"n1": up, "n2": up, "n3": up})
	all("n3", 2, map[string]member.Status{"n1": up, "n2": up, "n3": up})
	all("n3", 2, map[string]member.Status{"n1": lost, "n2": up, "n3": up})

	var lines []string
	for line := range strings.Lines(out.String()) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), " s  ")
		if before, _, timed := strings.Cut(text, ", 0 ms after"); timed {
			text = before
		}
		text, _, _ = strings.Cut(text, " after ")
		lines = append(lines, text)
	}
	want := []string{
		"n1 leads with authority, token 1000000000000; process 100",
		"three active members and a quorate leader",
		"n1 left the cluster",
		"no node leads with authority",
		"n3 leads with authority, token 2000000000000",
		"n3 reports: n1 is unreachable",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// linesAfter returns the lines after an offset, without their times.
func linesAfter(out *strings.Builder, after int) (all []string) {
	for line := range strings.Lines(out.String()[after:]) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), " s  ")
		all = append(all, numbers.ReplaceAllString(text, "N ms"))
	}
	return all
}

var numbers = regexp.MustCompile(`[0-9]+ ms`)

// TestNarratorAfterPause checks that after a pause of the leader, only reports written after the
// pause count.
func TestNarratorAfterPause(t *testing.T) {
	const up = member.Active
	all := map[string]member.Status{"n1": up, "n2": up, "n3": up}
	for name, c := range map[string]struct {
		led  string // the leader according to the resumed node
		want []string
	}{
		"lease over": {"", nil},
		"lease held": {"n1", []string{
			"n1 leads with authority, token 4000000000000, regained after N ms; process 100",
			"three active members and a quorate leader"}},
		"replaced": {"n2", []string{"n2 leads with authority, token 5000000000000, N ms after the " +
			"last leader; process 101"}},
	} {
		var out strings.Builder
		f := trio(&out)
		n, others := f.nodes[0], f.nodes[1:]
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer read.Close()
		defer write.Close()
		n.proc.orders = write
		for _, n := range f.nodes {
			f.onReport(n, supervised.Report{Status: statusOf(n.name, "n1", 4, all)})
		}
		f.noteSignal(n, syscall.SIGSTOP)
		before := out.Len()
		f.noteSignal(n, syscall.SIGCONT)
		order := make([]byte, len("report 1\n"))
		if _, err := io.ReadFull(read, order); err != nil || string(order) != "report 1\n" {
			t.Errorf("%s: the node got %q, %v", name, order, err)
		}
		f.onReport(n, supervised.Report{Status: statusOf("n1", "n1", 4,
			all)}) // a report from before the pause
		if got := linesAfter(&out, before); len(got) > 0 {
			t.Errorf("%s: printed %q, want nothing before the node reports", name, got)
		}
		token := map[string]uint64{"": 0, "n1": 4, "n2": 5}[c.led]
		if c.led == "n2" {
			f.onReport(others[0], supervised.Report{Status: statusOf("n2", "n2", token, all)})
		}
		f.onReport(n, supervised.Report{Status: statusOf("n1", c.led, token, all), Asked: 1})
		if diff := cmp.Diff(c.want, linesAfter(&out, before)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		if want := "n1 is paused, and no other node leads yet\n"; !strings.Contains(out.String(), want) {
			t.Errorf("%s: printed\n%s\nwant %q in it", name, &out, want)
		}
	}
}

// TestStaleLeader checks that a leader that another program has paused is ignored, although its
// last report is that it leads.
func TestStaleLeader(t *testing.T) {
	f := trio(&strings.Builder{})
	f.nodes[0].status = statusOf("n1", "n1", 4, nil)
	f.nodes[1].status = statusOf("n2", "n2", 6, nil)
	f.nodes[2].status = statusOf("n3", "n2", 6, nil)
	if got := leaderOf(f.nodes); got != f.nodes[1] {
		t.Errorf("tokens 4, 6 and a follower: %+v, want n2", got)
	}
	f.nodes[1].paused = true
	if got := leaderOf(f.nodes); got != f.nodes[0] {
		t.Errorf("n2 paused by the demo: %+v, want n1", got)
	}
	f.nodes[0].proc = nil
	if got := leaderOf(f.nodes); got != nil {
		t.Errorf("no node reports that it leads: %+v, want nil", got)
	}
}

func TestDemoAPI(t *testing.T) {
	f := trio(&strings.Builder{})
	for i, n := range f.nodes[:2] {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			adminapi.WriteJSON(w, http.StatusOK, n.name+" "+r.URL.String()+" "+r.Host)
		}))
		defer s.Close()
		n.admin = strings.TrimPrefix(s.URL, "http://")
		n.status = statusOf(n.name, []string{"", "n2"}[i], uint64(i), nil)
	}
	f.nodes[2].proc = nil
	h := newDemoAPI(f)
	for _, c := range []struct {
		name, method, path, site string
		code                     int
		want                     string
	}{
		{"the leader answers", "GET", "/v1/status", "", 200, `"n2 /v1/status ` + f.nodes[1].admin + `"`},
		{"with the query", "GET", "/readyz?leader", "", 200, `"n2 /readyz?leader ` + f.nodes[1].admin},
		{"one node answers", "GET", "/v1/nodes/n1/leader", "", 200, `"n1 /v1/leader ` + f.nodes[0].admin},
		{"unknown node", "GET", "/v1/nodes/n9/status", "", 404, `"code":"not_found"`},
		{"node that is not running", "GET", "/v1/nodes/n3/status", "", 503, `"code":"no_node"`},
		{"kill a stopped node", "POST", "/v1/nodes/n3/kill", "", 409, `"code":"not_now"`},
		{"cut a stopped node", "POST", "/v1/nodes/n3/cut", "", 409, `"code":"not_now"`},
		{"kill an unknown node", "POST", "/v1/nodes/n9/kill", "", 404, `"code":"not_found"`},
		{"one node lists all", "GET", "/v1/nodes/n1/nodes?a=b", "", 200,
			`"n1 /v1/nodes?a=b ` + f.nodes[0].admin},
		{"the leader acts", "POST", "/v1/transfer", "same-origin", 200, `"n2 /v1/transfer `},
		{"one node acts", "POST", "/v1/nodes/n1/leave", "none", 200, `"n1 /v1/leave `},
		{"one node does not act for another site", "POST", "/v1/nodes/n1/leave", "cross-site", 403,
			`"code":"cross_site"`},
		{"nor the leader", "POST", "/v1/leave", "same-site", 403, `"code":"cross_site"`},
		{"node alone", "GET", "/v1/nodes/n1", "", 404, "no such path: /v1/nodes/n1"},
		{"wrong method", "GET", "/v1/nodes/n1/kill", "", 405,
			"method GET not allowed; /v1/nodes/n1/kill accepts POST"},
		{"post to all", "POST", "/v1/nodes", "", 405, "/v1/nodes accepts GET"},
		{"from another site", "POST", "/v1/nodes/n1/kill", "cross-site", 403, `"code":"cross_site"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, c.path, nil)
			if c.site != "" {
				r.Header.Set("Sec-Fetch-Site", c.site)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%s %s: %d %s, want %d and %s", c.method, c.path, w.Code, w.Body, c.code, c.want)
			}
		})
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/nodes", nil))
	var got []nodeEntry
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := []nodeEntry{
		{Name: "n1", PID: 100, Address: "n1:1", Admin: f.nodes[0].admin, Alive: true},
		{Name: "n2", PID: 101, Address: "n2:1", Admin: f.nodes[1].admin, Alive: true},
		{Name: "n3", Address: "n3:1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GET /v1/nodes: -want +got:\n%s", diff)
	}
}

// TestDemoStreams checks that events are passed on as they arrive, for longer than the response
// timeout, even to a browser that sends no Sec-Fetch-Site.
func TestDemoStreams(t *testing.T) {
	more, gone := make(chan string), make(chan bool)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/events" || r.Header.Get("Origin") != "" {
			t.Errorf("got %s with Origin %q, want /v1/events without", r.URL, r.Header.Get("Origin"))
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			select {
			case text := <-more:
				_, _ = w.Write([]byte(text))
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				gone <- true
				return
			}
		}
	}))
	defer s.Close()
	f := trio(&strings.Builder{})
	f.nodes[0].admin = strings.TrimPrefix(s.URL, "http://")
	demo := httptest.NewServer(newDemoAPI(f))
	defer demo.Close()
	for _, path := range []string{"/v1/events", "/v1/nodes/n1/events"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", demo.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", demo.URL)
		go func() { more <- "first\n" }()
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(resp.Body)
		if !lines.Scan() || lines.Text() != "first" {
			t.Errorf("GET %s: %q, want the first line while the stream is open", path, lines.Text())
		}
		more <- "second\n"
		if !lines.Scan() || lines.Text() != "second" {
			t.Errorf("GET %s: %q, want the second", path, lines.Text())
		}
		resp.Body.Close()
		<-gone // the node detects that the reader is gone
	}
}

// TestNoNodeResponds checks that the error has the format of the API.
func TestNoNodeResponds(t *testing.T) {
	f := trio(&strings.Builder{})
	w := httptest.NewRecorder()
	newDemoAPI(f).ServeHTTP(w, httptest.NewRequest("GET", "/v1/status", nil))
	if w.Code != 503 || !strings.Contains(w.Body.String(), codeNoNode) {
		t.Errorf("no node listens: %d %s, want 503 %s", w.Code, w.Body, codeNoNode)
	}
	f.nodes[0].admin = "127.0.0.1:1"
	w = httptest.NewRecorder()
	newDemoAPI(f).ServeHTTP(w, httptest.NewRequest("GET", "/v1/status", nil))
	if w.Code != 504 || !strings.Contains(w.Body.String(), adminapi.CodeNoAnswer) {
		t.Errorf("the node is gone: %d %s, want 504 %s", w.Code, w.Body, adminapi.CodeNoAnswer)
	}
}

// TestSignalsNamed checks that each signal of the demo has a text.
func TestSignalsNamed(t *testing.T) {
	for s, want := range map[syscall.Signal]string{
		syscall.SIGKILL: "n1 killed", syscall.SIGSTOP: "n1 paused", syscall.SIGCONT: "n1 resumed",
	} {
		var out strings.Builder
		f := trio(&out)
		f.tell.printSignal(f.nodes[0], s)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%v: %q, want %q in it", s, out.String(), want)
		}
	}
}
