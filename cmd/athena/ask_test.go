// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/record"
)

// fake is a node with a fixed status.
type fake cluster.Status

func (f fake) Status() cluster.Status { return cluster.Status(f) }
func (fake) Records() record.Store    { return record.NewMemory().Store("h:1") }

// Events returns no events, like a closed node.
func (f fake) Events(context.Context) iter.Seq[cluster.Event] {
	return func(func(cluster.Event) bool) {}
}

// pair returns n1, which leads a cluster of two members. If token is 0, there is no leader.
func pair(token uint64) fake {
	entry := func(name string, port uint16, status member.Status) member.Member {
		m := member.Member{Name: name, Seed: port == 1, Status: status}
		m.Address, m.Incarnation = member.Address{Host: "h", Port: port}, 12
		return m
	}
	ms := member.Roster{entry("n1", 1, member.Active), entry("n2", 2, member.Unreachable)}
	ms[1].Traits = member.Traits{Preference: member.NeverLeads, Labels: "zone=a\n"}
	f := fake{Cluster: "c", Size: 2, Quorum: 2, Self: ms[0]}
	f.Token.Version = token
	f.View = member.View{Role: member.Leading, Leader: ms[0].Address, Version: 3, Members: ms}
	f.OtherSeeds = []member.Address{ms[1].Address}
	f.PeerFaults = []cluster.PeerFault{{Address: ms[1].Address, Why: "refused"}}
	f.MissingSeeds = []cluster.MissingSeed{{Address: ms[1].Address, Why: "no answer"}}
	if token == 0 {
		f.NoLeader = "needs 2 of the 2 voters"
	}
	return f
}

// TestStatusOfADrainedNode checks that an operator can see that a node is drained.
func TestStatusOfADrainedNode(t *testing.T) {
	f := restarted()
	f.Drained = true
	_, stdout, _ := athena("status", "--admin", answering(t, f))
	want := "n1 at h:1, joining (holds version 3.7), drained: it leads only if no other member can\n"
	if !strings.Contains(stdout, want) {
		t.Errorf("status prints\n%s\nwant %q", stdout, want)
	}
}

// TestStatusNamesTheDisk checks that status and why blame a disk that does not answer.
func TestStatusNamesTheDisk(t *testing.T) {
	f := pair(3)
	f.NotSaving = "the disk does not answer"
	for _, verb := range []string{"status", "why"} {
		_, stdout, _ := athena(verb, "--admin", answering(t, f))
		want := "the disk does not answer: do not restart another node"
		if !strings.Contains(stdout, want) {
			t.Errorf("%s prints\n%s\nwant %q", verb, stdout, want)
		}
	}
}

// TestStatusNamesTheSlowestHandler checks that an operator can see which handler does not return.
func TestStatusNamesTheSlowestHandler(t *testing.T) {
	f := pair(3)
	f.Receivers = []receiver.Stats{{Event: "Order"}, {Event: "Pay", Slowest: receiver.SlowHandler{
		Event: "Pay", From: f.View.Members[1].Address, Running: 42 * time.Second, Waiting: 7,
	}}}
	_, stdout, _ := athena("status", "--admin", answering(t, f))
	want := "Pay from h:2, running for 42 s, 7 events waiting\n"
	if !strings.Contains(stdout, want) {
		t.Errorf("status prints\n%s\nwant %q", stdout, want)
	}
}

// restarted returns n1 after a restart, before it rejoins.
func restarted() fake {
	f := pair(0)
	f.View.Role, f.View.Leader, f.View.Revision = member.Seeking, member.Address{}, 7
	f.Transport.Handshakes = map[string]uint64{mesh.ResultCertificate.String(): 12}
	return f
}

// answering serves the admin API of a node on a socket and returns its address.
func answering(t *testing.T, node admin.Node, opts ...admin.Option) string {
	t.Helper()
	return answeringAt(t, "unix:"+filepath.Join(t.TempDir(), "admin"), node, opts...)
}

// answeringAt is answering at an address.
func answeringAt(t *testing.T, at string, node admin.Node, opts ...admin.Option) string {
	t.Helper()
	l, err := admin.Listen(at)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- admin.Serve(ctx, l, admin.New(node, "b", opts...)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return admin.AddrOf(l)
}

// TestEmptyHostIsLocalhost checks that --admin may leave out the host of a node on this machine.
func TestEmptyHostIsLocalhost(t *testing.T) {
	_, port, _ := net.SplitHostPort(answeringAt(t, "127.0.0.1:0", pair(3)))
	if code, _, stderr := athena("status", "--admin", ":"+port); code != cli.ExitDone {
		t.Errorf("code %d, %q", code, stderr)
	}
}

// TestAdviceForConnections checks that only an error of the connection advises to start a node or
// to ask another.
func TestAdviceForConnections(t *testing.T) {
	const advice = "; start a node with --admin "
	for _, c := range []struct {
		at, want string
		advised  bool
	}{
		{"unix:" + filepath.Join(t.TempDir(), "none"), "no response from unix:", true},
		{answering(t, pair(3)), "n2 is unreachable: drill only a healthy cluster\n", false},
	} {
		code, _, stderr := athena("drill", "--admin", c.at, "--yes", "--", "true")
		if code != cli.ExitFailed || !strings.Contains(stderr, c.want) ||
			strings.Contains(stderr, advice) != c.advised {
			t.Errorf("%s: code %d, %q, want %q and the advice: %t", c.at, code, stderr, c.want, c.advised)
		}
	}
}

// question is a command that asks nodes.
type question struct {
	name, at       string
	args           []string
	code           int
	stdout, stderr string
}

func TestAsk(t *testing.T) {
	led, leaderless := answering(t, pair(3)), answering(t, pair(0))
	named := pair(3)
	named.View.Members[1].Name = "n1"
	tryQuestions(t, []question{
		{"members", led, []string{"members"}, cli.ExitDone, "" +
			"NAME  ADDRESS  STATUS       ROLE    SEED  INCARNATION  PREFERENCE  LABELS  BUILD\n" +
			"n1    h:1      active       leader  seed  12           0           -       b\n" +
			"n2    h:2      unreachable  -       -     12           never       zone=a  -\n", ""},
		{"members with a label", led, []string{"members", "--label", "zone=a"}, cli.ExitDone, "" +
			"NAME  ADDRESS  STATUS       ROLE  SEED  INCARNATION  PREFERENCE  LABELS  BUILD\n" +
			"n2    h:2      unreachable  -     -     12           never       zone=a  -\n", ""},
		{"members with another label", led, []string{"members", "--label", "zone=b"}, cli.ExitDone, "" +
			"NAME  ADDRESS  STATUS  ROLE  SEED  INCARNATION  PREFERENCE  LABELS  BUILD\n", ""},
		{"members without quorum", leaderless, []string{"members"}, cli.ExitDone, "" +
			"NAME  ADDRESS  STATUS       ROLE                   SEED  INCARNATION  PREFERENCE  " +
			"LABELS  BUILD\n" +
			"n1    h:1      active       leader without quorum  seed  12           0           -       b\n" +
			"n2    h:2      unreachable  -                      -     12           never       zone=a  -\n",
			"athena: no leader with authority: this view may be outdated (version 3.0); "},
		{"members of nothing", answering(t, fake{}), []string{"members"}, cli.ExitDone,
			"NAME  ADDRESS  STATUS  ROLE  SEED  INCARNATION  PREFERENCE  LABELS  BUILD\n",
			"has not joined a cluster"},
		{"members as JSON", answering(t, fake{}), []string{"members", "-o", "json"}, cli.ExitDone,
			"[]\n", "has not joined a cluster"},
		{"leader", led, []string{"leader"}, cli.ExitDone, "" +
			"NAME  ADDRESS  TOKEN\n" +
			"n1    h:1      3000000000000\n", ""},
		{"no leader", leaderless, []string{"leader"}, cli.ExitFailed, "", "no leader has the support"},
		{"no leader as JSON", leaderless, []string{"leader", "-o", "json"}, cli.ExitFailed, "",
			"no leader has the support"},
		{"status", led, []string{"status"}, cli.ExitDone, "" +
			"node     n1 at h:1, leader\n" +
			"cluster  c, 1 of 2 members active, 2 make a majority\n" +
			"leader   n1 at h:1, token 3000000000000\n" +
			"seeds    h:2 has different --seeds: use the same list on every node of a cluster\n" +
			"missing  seed h:2: no answer\n" +
			"fault    h:2: refused\n" +
			"lease    0 ms left\n" +
			"view     version 3, revision 0\n" +
			"running  0s, b, protocol 3\n", ""},
		{"status without quorum", leaderless, []string{"status"}, cli.ExitDone, "" +
			"node     n1 at h:1, leader\n" +
			"cluster  c, 1 of 2 members active, 2 make a majority\n" +
			"leader   none with authority\n" +
			"why      needs 2 of the 2 voters\n" +
			"view     version 3, revision 0\n" +
			"running  0s, b, protocol 3\n", ""},
		{"status after a restart", answering(t, restarted()), []string{"status"}, cli.ExitDone, "" +
			"node     n1 at h:1, joining (holds version 3.7)\n" +
			"cluster  c, 1 of 2 members active then, 2 make a majority\n" +
			"leader   none with authority\n" +
			"why      needs 2 of the 2 voters\n" +
			"view     version 3, revision 7\n" +
			"refused  12 handshakes with a wrong secret or certificate since the start\n" +
			"running  0s, b, protocol 3\n", ""},
		{"no node", "127.0.0.1:1", []string{"status"}, cli.ExitFailed, "", "ATHENA_ADMIN"},
	})
}

// TestAskSeveral checks what nodes print about several nodes, and about the leader.
func TestAskSeveral(t *testing.T) {
	led, leaderless := answering(t, pair(3)), answering(t, pair(0))
	named := pair(3)
	named.View.Members[1].Name = "n1"
	named.TermSince = time.Unix(0, 0)
	tryQuestions(t, []question{
		{"the first that answers", "127.0.0.1:1," + led, []string{"leader"}, cli.ExitDone, "" +
			"NAME  ADDRESS  TOKEN\n" +
			"n1    h:1      3000000000000\n", ""},
		{"all", led + "," + led + "," + leaderless + ",127.0.0.1:1", []string{"status", "--all"},
			cli.ExitDone, "" +
				"NODE         ROLE       LEADER  TOKEN          VIEW  ACTIVE  CLUSTER  DISK  BUILD\n" +
				"n1           leader     n1      3000000000000  3.0   1/2     -        ok    b\n" +
				"n1           leader     n1      3000000000000  3.0   1/2     -        ok    b\n" +
				"n1           leader     !none   !0             3.0   1/2     -        ok    b\n" +
				"127.0.0.1:1  no answer  -       -              -     -       -        -     -" +
				"  dial tcp 127.0.0.1:1: connect: connection refused\n", ""},
		{"all through one", led, []string{"status", "--all"}, cli.ExitDone, "" +
			"NODE  ROLE       LEADER  TOKEN          VIEW  ACTIVE  CLUSTER  DISK  BUILD\n" +
			"n1    leader     n1      3000000000000  3.0   1/2     -        ok    b\n" +
			"n2    no answer  -       -              -     -       -        -     -" +
			"  no response from n2: this program does not query other members (admin.Answer)\n", ""},
		{"all of one name", answering(t, named), []string{"status", "--all"}, cli.ExitDone, "" +
			"NODE  ROLE       LEADER  TOKEN          VIEW  ACTIVE  CLUSTER  DISK  BUILD\n" +
			"h:1   leader     n1      3000000000000  3.0   1/2     -        ok    b\n" +
			"h:2   no answer  -       -              -     -       -        -     -" +
			"  no response from h:2: this program does not query other members (admin.Answer)\n", ""},
		{"all of none", "127.0.0.1:1,127.0.0.1:2", []string{"status", "--all"}, cli.ExitFailed, "",
			"start one of these nodes"},
		{"why", answering(t, named), []string{"why"}, cli.ExitDone,
			"n1 at h:1 leads, seen since 1970-01-01T00:00:00Z.\nh:2: refused.\n", ""},
		{"why none", leaderless, []string{"why"}, cli.ExitDone,
			"No leader with authority: needs 2 of the 2 voters.\n", ""},
	})
}

// TestDiskColumn checks what the table of all nodes shows of their disks.
func TestDiskColumn(t *testing.T) {
	views := []nodeView{
		{Node: "n1", Status: &adminapi.Status{SaveMS: 1}},
		{Node: "n2", Status: &adminapi.Status{SaveMS: 338.4}},
		{Node: "n3", Status: &adminapi.Status{SaveMS: 7000, NotSaving: "the disk does not answer"}},
	}
	markDifferences(views)
	for i, want := range []string{"ok", "slow (340ms)", "not saving"} {
		marked := slices.Contains(views[i].Differs, "disk")
		if got := diskText(*views[i].Status); got != want || marked != (i > 0) {
			t.Errorf("n%d: %q, marked %v, want %q", i+1, got, marked, want)
		}
	}
}

// tryQuestions runs the commands and checks their output.
func tryQuestions(t *testing.T, questions []question) {
	t.Helper()
	for _, c := range questions {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := athena(append(c.args, "--admin", c.at)...)
			if diff := cmp.Diff(c.stdout, stdout); code != c.code || diff != "" {
				t.Errorf("%q: code %d, want %d, output -want +got:\n%s", c.args, code, c.code, diff)
			}
			if !strings.Contains(stderr, c.stderr) || c.stderr == "" && stderr != "" {
				t.Errorf("%q: error %q, want %q in it", c.args, stderr, c.stderr)
			}
		})
	}
}

// TestAskUnnamed checks that a node without a name is printed by its address only.
func TestAskUnnamed(t *testing.T) {
	f := pair(3)
	for i, m := range f.View.Members {
		f.View.Members[i].Name = m.Address.String()
	}
	f.Self = f.View.Members[0]
	_, stdout, _ := athena("status", "--admin", answering(t, f))
	for _, want := range []string{"node     h:1, leader\n", "leader   h:1, token 3000000000000\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("athena status prints\n%s\nwant %q in it", stdout, want)
		}
	}
}

// TestAskSomethingElse checks that a web server that is not a node is reported as such, for any
// response.
func TestAskSomethingElse(t *testing.T) {
	for what, h := range map[string]http.HandlerFunc{
		"404 Not Found": http.NotFound,
		"200 OK":        func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
	} {
		s := httptest.NewServer(h)
		code, stdout, stderr := athena("leader", "--admin", strings.TrimPrefix(s.URL, "http://"))
		s.Close()
		if code != cli.ExitFailed || stdout != "" ||
			!strings.Contains(stderr, "is not an Athena node") ||
			!strings.Contains(stderr, what) {
			t.Errorf("%s: code %d, output %q, error %q, want %d, none, not a node",
				what, code, stdout, stderr, cli.ExitFailed)
		}
	}
}

// TestAskEnvironment checks that ATHENA_ADMIN sets the address, and that a misspelled variable
// causes a warning.
func TestAskEnvironment(t *testing.T) {
	t.Setenv("ATHENA_ADMIN", answering(t, pair(3)))
	t.Setenv("ATHENA_ADMN", "127.0.0.1:1")
	t.Setenv("ATHENA_SIZE", "3") // a known variable that this verb does not read
	code, stdout, stderr := athena("status", "-o", "json")
	var got adminapi.Status
	if err := json.Unmarshal([]byte(stdout), &got); code != cli.ExitDone || err != nil {
		t.Fatalf("athena status -o json: code %d, %v, error %q, output\n%s", code, err, stderr, stdout)
	}
	if diff := cmp.Diff(adminapi.StatusOf(pair(3).Status(), "b"), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want := "athena: ATHENA_ADMN is ignored"
	if !strings.HasPrefix(stderr, want) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("got %q, want only a warning of ATHENA_ADMN", stderr)
	}
}
