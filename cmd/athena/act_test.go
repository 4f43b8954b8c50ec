// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// acting is a fake node that records its operations; n2 is never reachable.
type acting struct{ did []string }

func (a *acting) Send(
	_ context.Context, to member.Address, event any, _ ...cluster.SendOption,
) error {
	e := event.(receiver.JSON)
	a.did = append(a.did, fmt.Sprintf("send %s %s to %s", e.Name, e.Text, to))
	return fmt.Errorf("%w: %s is gone", cluster.ErrNotDelivered, to)
}

func (a *acting) Broadcast(context.Context, any, ...cluster.SendOption) error {
	return cluster.ErrBusy
}

func (a *acting) Transfer(_ context.Context, to member.Address) error {
	a.did = append(a.did, "transfer "+to.String())
	return nil
}

func (a *acting) Drain(context.Context) error {
	a.did = append(a.did, "drain")
	return nil
}

func (a *acting) Prefer(_ context.Context, p member.Preference) error {
	a.did = append(a.did, "prefer "+p.String())
	return nil
}

func (a *acting) ReleaseSeats(_ context.Context, keep int) error {
	a.did = append(a.did, fmt.Sprint("keep ", keep))
	return nil
}

func (a *acting) SetLabels(_ context.Context, labels map[string]string) error {
	a.did = append(a.did, fmt.Sprint("labels ", labels))
	return nil
}

// actCase is a command that makes a node do something.
type actCase struct {
	name, at string
	args     []string
	code     int
	stdout   string
	stderr   string
	did      string
}

// handedTo1 is the output after leadership was handed over to n1.
const handedTo1 = "NAME  ADDRESS  TOKEN\nn1    h:1      3000000000000\n"

func TestTransfer(t *testing.T) {
	a := &acting{}
	write := admin.WithWrite(a, nil)
	led, leaderless := answering(t, pair(3), write), answering(t, pair(0), write)
	const leader = handedTo1
	a.tryAll(t, []actCase{
		{"transfer", led, []string{"transfer"}, cli.ExitDone, leader, "", "transfer -"},
		{"transfer to a name", led, []string{"transfer", "--to", "n1"}, cli.ExitDone, leader, "",
			"transfer h:1"},
		{"transfer to a member", led, []string{"transfer", "n1"}, cli.ExitDone, leader, "",
			"transfer h:1"},
		{"transfer to an address", led, []string{"transfer", "--to", "h:1"}, cli.ExitDone, leader, "",
			"transfer h:1"},
		{"another leads", led, []string{"transfer", "--to", "n2"}, cli.ExitDone, leader,
			"n2 did not respond: another member took over", "transfer h:2"},
		{"transfer to an unknown member", led, []string{"transfer", "--to", "n9"}, cli.ExitFailed, "",
			`responded: to "n9": no member has this address or name: see athena members`, ""},
		{"transfer without quorum", leaderless, []string{"transfer", "-o", "json"}, cli.ExitDone,
			"{\n  \"leader\": null\n}\n", "there is no leader with authority yet", "transfer -"},
		{"two members", led, []string{"transfer", "n1", "--to", "n2"}, cli.ExitUsage, "",
			`--to replaces MEMBER: remove "n1" or --to`, ""},
		{"two arguments", led, []string{"transfer", "n1", "n2"}, cli.ExitUsage, "",
			`unexpected argument "n2"`, ""},
		{"empty member", led, []string{"transfer", ""}, cli.ExitUsage, "", "an argument is empty", ""},
	})
}

func TestAct(t *testing.T) {
	a := &acting{}
	write := admin.WithWrite(a, func() { a.did = append(a.did, "leave") })
	led, leaderless := answering(t, pair(3), write), answering(t, pair(0), write)
	readOnly := answering(t, pair(3))
	const leader = handedTo1
	const kept = "at most 3 members remain\n"
	a.tryAll(t, []actCase{
		{"drain", led, []string{"drain"}, cli.ExitDone, leader, "", "drain"},
		{"release", led, []string{"release", "--keep", "3"}, cli.ExitDone, kept, "", "keep 3"},
		{"drain without quorum", leaderless, []string{"drain"}, cli.ExitDone, "", "no leader", "drain"},
		{"prefer", led, []string{"prefer", "2"}, cli.ExitDone, leader, "", "prefer 2"},
		{"prefer never", led, []string{"prefer", "never"}, cli.ExitDone, leader, "", "prefer never"},
		{"prefer a wrong number", led, []string{"prefer", "101"}, cli.ExitUsage, "",
			"want never, or 0 to 100", ""},
		{"label", led, []string{"label", "zone=b", "note=a=b-", "rack-"}, cli.ExitDone,
			"note=a=b-\nzone=b\n", "", "labels map[note:a=b- zone:b]"},
		{"label without a value", led, []string{"label", "zone"}, cli.ExitUsage, "",
			`"zone": want KEY=VALUE, or KEY- to remove a label`, ""},
		{"set and remove a label", led, []string{"label", "zone=b", "zone-"}, cli.ExitUsage, "",
			`"zone-": the label zone is given twice`, ""},
		{"no label", led, []string{"label"}, cli.ExitUsage, "", "KEY=VALUE or KEY- is missing", ""},
		{"leave", led, []string{"leave"}, cli.ExitDone, "the node is leaving\n", "", "leave"},
		{"leave as JSON", answering(t, pair(3), write), []string{"leave", "-o", "json"}, cli.ExitDone,
			"{\n  \"status\": \"leaving\"\n}\n", "", "leave"},
		{"send to one", led, []string{"send", "Order", `{"ID": 7}`, "--to", "n2"}, cli.ExitFailed, "",
			"h:2 is gone", `send Order {"ID":7} to h:2`},
		{"send to all", led, []string{"send", "Order", `{}`}, cli.ExitFailed, "", "busy: too many",
			""},
		{"read only", readOnly, []string{"leave"}, cli.ExitFailed, "", "--admin-write", ""},
		{"no JSON", led, []string{"send", "Order", `{ID: 7}`}, cli.ExitUsage, "",
			"is not valid JSON", ""},
		{"no event", led, []string{"send", "Order"}, cli.ExitUsage, "", "JSON is missing", ""},
		{"unquoted", led, []string{"send", "Order", `{"ID":`, `7}`}, cli.ExitUsage, "", "quote", ""},
		{"argument", led, []string{"leave", "now"}, cli.ExitUsage, "", `unexpected argument "now"`, ""},
		{"drill two members", led, []string{"drill", "n1", "n2", "--", "true"}, cli.ExitUsage, "",
			`unexpected argument "n2"`, ""},
	})
}

// tryAll runs the commands and checks their output and what they did.
func (a *acting) tryAll(t *testing.T, cases []actCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a.did = nil
			code, stdout, stderr := athena(append(c.args, "--admin", c.at)...)
			if code != c.code || stdout != c.stdout || !strings.Contains(stderr, c.stderr) ||
				c.stderr == "" && stderr != "" {
				t.Errorf("%q: code %d, output %q, error %q, want %d, %q and %q",
					c.args, code, stdout, stderr, c.code, c.stdout, c.stderr)
			}
			if got := strings.Join(a.did, ", "); got != c.did {
				t.Errorf("%q: did %q, want %q", c.args, got, c.did)
			}
		})
	}
}

// TestPrintSent checks that one line is printed for each member.
func TestPrintSent(t *testing.T) {
	var out strings.Builder
	printSent(&out, adminapi.Sent{Results: []adminapi.SendResult{
		{Name: "n1", Address: member.Address{Host: "h", Port: 1}, Result: adminapi.OutcomeHandled},
		{Name: "n2", Address: member.Address{Host: "h", Port: 2}, Result: adminapi.CodeBusy,
			Error: "full"},
	}})
	want := "NAME\tADDRESS\tRESULT\tERROR\nn1\th:1\thandled\t-\nn2\th:2\tbusy\tfull\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestToken checks that the token is read from a flag or a variable, and that a missing token is
// reported.
func TestToken(t *testing.T) {
	path := secretFile(t, strings.Repeat("t", 32)+"\n", 0o600)
	token, err := admin.ReadToken(path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := admin.Listen("unix:"+filepath.Join(t.TempDir(), "admin"), admin.WithToken(token))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- admin.Serve(ctx, l, admin.New(pair(3), "b"), admin.WithToken(token)) }()
	defer func() { cancel(); <-done }()
	at := admin.AddrOf(l)
	code, _, stderr := athena("leader", "--admin", at)
	if code != cli.ExitFailed || !strings.Contains(stderr, "--admin-token-file") {
		t.Errorf("without a token: code %d, %q, want %d and what to do", code, stderr, cli.ExitFailed)
	}
	code, _, stderr = athena("leader", "--admin", at, "--admin-token-file", path)
	if code != cli.ExitDone {
		t.Errorf("with --admin-token-file: code %d, %q", code, stderr)
	}
	t.Setenv("ATHENA_ADMIN_TOKEN_FILE", path)
	if code, _, stderr := athena("events", "--admin", at); code != cli.ExitDone {
		t.Errorf("with ATHENA_ADMIN_TOKEN_FILE: code %d, %q", code, stderr)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = athena("leader", "--admin", at)
	if code != cli.ExitUsage || !strings.Contains(stderr, "ATHENA_ADMIN_TOKEN_FILE: ") {
		t.Errorf("with a file that others can read: code %d, %q, want %d and its name",
			code, stderr, cli.ExitUsage)
	}
}

// TestMissingToken checks that only a node is advised to create a token: one that a client creates
// is wrong.
func TestMissingToken(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ATHENA_ADMIN_TOKEN_FILE", "token")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"leader"}, "ATHENA_ADMIN_TOKEN_FILE: " + filepath.Join(here, "token") +
			": no such file: copy it from a node\n"},
		{[]string{"run", "--admin", "127.0.0.1:0"}, "create it with: athena secret new token\n"},
	} {
		code, _, stderr := athena(c.args...)
		if code != cli.ExitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("athena %q: code %d, %q, want %d and %q", c.args, code, stderr, cli.ExitUsage, c.want)
		}
	}
}

// changing is a fake node that reports two changes and then closes.
type changing struct{ fake }

func (c changing) Events(context.Context) iter.Seq[cluster.Event] {
	return func(yield func(cluster.Event) bool) {
		lost, m := c.View.Members[1], c.View.Members[1]
		m.Status = member.Active
		_ = yield(cluster.MemberChanged{Before: m, Member: lost}) &&
			yield(cluster.LeaderChanged{Leader: c.Self, Version: 3, Quorate: true})
	}
}

// TestEvents checks that a line is printed for each change. With -f the snapshot is printed first,
// without -f last.
func TestEvents(t *testing.T) {
	at := answering(t, changing{pair(3)})
	const now = "snapshot  1 of 2 members active, leader of version 3 is n1 at h:1, without quorum"
	changes := []string{
		"member    n2 at h:2 is unreachable, was active",
		"leader    leader of version 3 is n1 at h:1",
	}
	// The node closes after its changes.
	code, stdout, stderr := athena("events", "-f", "-o", "json", "--admin", at)
	first, _, _ := strings.Cut(stdout, "\n")
	var e adminapi.Event
	if err := json.Unmarshal([]byte(first), &e); err != nil || e.Type != adminapi.EventSnapshot ||
		e.Snapshot.Cluster != "c" || e.ID == "" {
		t.Errorf("athena events -f -o json: %v, %+v of %q, want a snapshot", err, e, first)
	}
	if code != cli.ExitFailed || !strings.Contains(stderr, "has stopped") {
		t.Errorf("athena events -f: code %d, %q when the node has ended, want %d",
			code, stderr, cli.ExitFailed)
	}
	code, stdout, stderr = athena("events", "--admin", at)
	var got []string
	for line := range strings.Lines(stdout) {
		if !regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}  \w`).MatchString(line) {
			t.Errorf("line %q does not begin with a time", line)
		}
		got = append(got, strings.TrimSuffix(line[min(len(line), 25):], "\n"))
	}
	if diff := cmp.Diff(append(changes, now), got); diff != "" || code != cli.ExitDone ||
		stderr != "" {
		t.Errorf("athena events: code %d, %q, -want +got:\n%s", code, stderr, diff)
	}
	code, _, stderr = athena("events", "--admin", "127.0.0.1:1")
	if code != cli.ExitFailed || !strings.Contains(stderr, "no response") {
		t.Errorf("athena events without a node: code %d, %q, want %d", code, stderr, cli.ExitFailed)
	}
}
