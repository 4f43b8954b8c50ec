// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

func TestHoldUsage(t *testing.T) {
	wantRefused(t, []usageCase{
		{"no name", []string{"lock"}, []string{"NAME is missing", "athena lock --help"}},
		{"no name before a command", []string{"lock", "--", "true"}, []string{"NAME is missing"}},
		{"no dashes", []string{"lock", "x", "true"}, []string{`"true": put the command after --`}},
		{"two names", []string{"elect", "x", "y", "--", "true"}, []string{`"y": put the command after`}},
		{"no command", []string{"lock", "x", "--"}, []string{"the command is missing after --"}},
		{"no latch", []string{"lock", "x/"}, []string{`NAME "x/"`, "bytes and printable"}},
		{"no job", []string{"lock", "/x"}, []string{`NAME "/x"`, "the job"}},
		{"two parts of a job", []string{"elect", "x/y"}, []string{`NAME "x/y"`, "without a slash"}},
		{"exit code", []string{"lock", "x", "-E", "256"},
			[]string{"--conflict-exit-code 256", "0 to 255"}},
		{"time to wait", []string{"lock", "x", "--timeout", "-1s"}, []string{"--timeout -1s"}},
		{"long holder", []string{"lock", "x", "--holder", strings.Repeat("h", 101)},
			[]string{"--holder", "at most 100 printable bytes"}},
		{"holder", []string{"elect", "x", "--holder", "a\x1b"}, []string{`--holder "a\x1b"`}},
		{"time to end", []string{"elect", "x", "--kill-after", "0s"}, []string{"--kill-after 0s"}},
		{"look and run", []string{"elect", "x", "-l", "--", "true"},
			[]string{"--listen runs no command"}},
		{"no strategy", []string{"group", "g", "--", "true"}, []string{"--strategy is missing"}},
		{"no group", []string{"group", "--strategy", "static"}, []string{"NAME is missing"}},
		{"name of a group", []string{"group", strings.Repeat("g", 129), "--strategy", "static"},
			[]string{"1 to 128 printable characters"}},
		{"control character", []string{"group", "a\x1b", "--strategy", "static"}, []string{`"a\x1b"`}},
		{"negative timing", []string{"group", "g", "--strategy", "lowest", "--alive", "-1s"},
			[]string{"--alive -1s: must be 1ms to 24h0m0s", "athena group --help"}},
		{"no file", []string{"group", "g", "--config", "no/such"},
			[]string{"--config: no/such: no such"}},
		{"no member", []string{"jobs", "disable", "x"}, []string{"MEMBER is missing"}},
		{"member and host", []string{"jobs", "disable", "x", "n1", "--host", "h"},
			[]string{`--host replaces MEMBER: remove "n1" or --host`}},
		{"host alone", []string{"jobs", "enable", "--host", "h"}, []string{"JOB is missing"}},
		{"host with a port", []string{"jobs", "disable", "x", "--host", "[::1]:7000"},
			[]string{`--host "[::1]:7000": must be a host name or an IP address, without a port`}},
		{"empty host", []string{"jobs", "disable", "x", "--host", ""}, []string{`--host ""`}},
		{"no verb of jobs", []string{"jobs", "frob"}, []string{"frob"}},
	})
}

// TestTokenText checks that the text of a token equals ATHENA_TOKEN, or is VERSION.REVISION if
// ATHENA_TOKEN would not fit in 63 bits.
func TestTokenText(t *testing.T) {
	for want, token := range map[string]adminapi.RecordToken{
		"4000000000017": {Version: 4, Revision: 17}, "0.1000000000000": {Revision: 1_000_000_000_000},
	} {
		if got := token.String(); got != want {
			t.Errorf("%+v: %s, want %s", token, got, want)
		}
	}
}

// recording is a fake node that has records.
type recording struct {
	fake
	records []member.Record
}

func (r recording) Records() record.Store { return listing{records: r.records} }

// listing is a Store that implements only List.
type listing struct {
	record.Store
	records []member.Record
}

func (l listing) List(context.Context, string) ([]member.Record, error) { return l.records, nil }

// TestJobs checks that a line is printed for each job, that stuck shards are marked, and that
// control characters in names do not break the table.
func TestJobs(t *testing.T) {
	node := recording{fake: pair(3)}
	for i, r := range []member.Record{
		{Key: "latch/billing/disabled/h:2"},
		{Key: "latch/billing/disabled/h:9"},
		{Key: "latch/billing/host/10.0.0.9"},
		{Key: "latch/billing/latch/5", Value: []byte("h:2")},
		{Key: "latch/billing/latch/schema", Value: []byte("h:2")},
		{Key: "latch/billing/leader", Value: []byte("h:1")},
		{Key: "latch/billing/worker/h:2", Value: []byte("8 5 !5")},
		{Key: "latch/mail/leader", Value: []byte("a\x1b[2J\nb")},
		{Key: "other"},
	} {
		r.Token = member.Token{Version: 4, Revision: uint64(i)}
		node.records = append(node.records, r) // sorted by key
	}
	code, stdout, stderr := athena("jobs", "--admin", answering(t, node))
	want := "" +
		"JOB      LEADER       TOKEN          DISABLED                LOCKS" +
		strings.Repeat(" ", 53) + "SINCE  HOLDER\n" +
		"billing  n1           4000000000005  n2, h:9, host 10.0.0.9  5 (n2, 4000000000003, stuck), " +
		"schema (n2, 4000000000004)  -      -\n" +
		"mail     a\\x1b[2J; b  4000000000007  -                       -" +
		strings.Repeat(" ", 57) + "-      -\n"
	if code != cli.ExitDone || stdout != want || stderr != "" {
		t.Errorf("code %d, error %q,\n%swant\n%s", code, stderr, stdout, want)
	}
	_, _, stderr = athena("jobs", "--admin", answering(t, recording{fake: pair(0)}))
	if !strings.Contains(stderr, "no leader with authority") {
		t.Errorf("without a leader: %q", stderr)
	}
}

// TestHoldRefused checks that a node without --admin-write refuses locks and jobs.
func TestHoldRefused(t *testing.T) {
	s := record.NewMemory().Store("h:1")
	jobs := admin.WithJobs(s, func() time.Duration { return time.Second })
	for _, args := range [][]string{
		{"lock", "x"}, {"elect", "x"}, {"jobs", "disable", "x", "n1"}, {"jobs", "enable", "x", "n1"},
		{"group", "x", "--strategy", "static"}, {"jobs", "disable", "x", "--host", "h"},
	} {
		want := cli.ExitNode
		if args[0] == "jobs" {
			want = cli.ExitFailed
		}
		code, stdout, stderr := athena(append(args, "--admin", answering(t, pair(3), jobs))...)
		if code != want || stdout != "" || !strings.Contains(stderr, "--admin-write") {
			t.Errorf("%q: code %d, output %q, error %q, want %d", args, code, stdout, stderr, want)
		}
	}
}

// TestCannotExecute checks the exit codes for a command that cannot be executed. The lock is not
// requested, so there need not be a node.
func TestCannotExecute(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]int{
		"no/such": cli.ExitNotFound, "no-such-command": cli.ExitNotFound,
		filepath.Join(dir, "text"): cli.ExitCannot, dir: cli.ExitCannot,
	} {
		for _, args := range [][]string{
			{"lock", "x"}, {"elect", "x"}, {"group", "g", "--strategy=static"},
		} {
			code, stdout, stderr := athena(append(args, "--admin", "127.0.0.1:1", "--", command)...)
			if code != want || stdout != "" || !strings.Contains(stderr, command) {
				t.Errorf("%q %s: code %d, output %q, error %q, want %d", args, command, code, stdout, stderr,
					want)
			}
		}
	}
}

// TestChangeLines checks that in JSON, exactly the lines of type leader have the field leader,
// which may be null.
func TestChangeLines(t *testing.T) {
	leader := &adminapi.Holder{Name: "n1", Address: "h:1", Token: adminapi.RecordToken{Version: 4}}
	for _, c := range []struct {
		line        changeLine
		json, table string
	}{
		{leaderLine(nil), `,"type":"leader","leader":null}`, "leader  none"},
		{leaderLine(leader), `,"type":"leader","leader":{"name":"n1","address":"h:1",` +
			`"token":{"version":4,"revision":0,"text":"4000000000000"}}}`,
			"leader  n1 at h:1, token 4000000000000"},
		{changeLine{Type: adminapi.EventHeld, Token: &leader.Token},
			`,"type":"held","token":{"version":4,"revision":0,"text":"4000000000000"}}`,
			"held    token 4000000000000"},
		{changeLine{Type: adminapi.EventLost, Error: "why"},
			`,"type":"lost","error":"why"}`, "lost    why"},
	} {
		for output, want := range map[string]string{"json": c.json, "table": c.table} {
			var out bytes.Buffer
			h := &heldVerb{Question: ask.Question{Output: output}, out: &out}
			if err := h.printLine(c.line); err != nil || !strings.HasSuffix(out.String(), want+"\n") {
				t.Errorf("%s: %q, %v, want %q at the end", output, &out, err, want)
			}
		}
	}
}

// TestLockWithoutLeader checks that lock prints why no caller gets the lock, not the holder.
func TestLockWithoutLeader(t *testing.T) {
	table := record.NewMemory()
	_, err := table.Store("h:2").Session(nil).Commit(t.Context(),
		record.Op{Kind: record.SetOwned, Key: "latch/lock/latch/x", Value: []byte("h:2")})
	if err != nil {
		t.Fatal(err)
	}
	jobs := admin.WithJobs(table.Store("h:1"), func() time.Duration { return time.Second })
	at := answering(t, pair(0), admin.WithWrite(&acting{}, nil), jobs)
	code, _, stderr := athena("lock", "x", "--timeout", "300ms", "--admin", at)
	want := "athena: waiting: no leader with authority: needs 2 of the 2 voters\n"
	if code != cli.ExitConflict || !strings.HasPrefix(stderr, want) {
		t.Errorf("code %d, error %q, want it to begin with %q", code, stderr, want)
	}
}
