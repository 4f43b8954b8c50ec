// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/member"
)

// journal records the log lines of one level, and when each was written.
type journal struct {
	level zerolog.Level
	mu    sync.Mutex
	begin time.Time
	lines []string
	times []time.Duration
}

func (j *journal) Write(p []byte) (int, error) { return len(p), nil }

func (j *journal) WriteLevel(level zerolog.Level, p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if level == j.level {
		j.lines = append(j.lines, string(bytes.TrimSpace(p)))
		j.times = append(j.times, time.Since(j.begin))
	}
	return len(p), nil
}

// about returns the lines that contain the text, and when they were written.
func (j *journal) about(text string) (lines []string, times []time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, line := range j.lines {
		if strings.Contains(line, text) {
			lines, times = append(lines, line), append(times, j.times[i])
		}
	}
	return lines, times
}

// keep returns a journal of the log lines of one level, and the option that writes to it.
func keep(level zerolog.Level) (*journal, Option) {
	j := &journal{level: level, begin: time.Now()}
	return j, WithLogger(logTo(zerolog.New(j)))
}

const complaintText = `"message":"no leader with authority"`

// TestLeaderlessNodeLogsWhy checks that a node without a leader logs the reason soon, again when
// the reason changes, and at growing intervals while it stays the same. When there is a leader
// again, the node must log that once.
func TestLeaderlessNodeLogsWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		warnings, logger := keep(zerolog.WarnLevel)
		n := w.add(2, Config{}, logger)
		time.Sleep(5*time.Minute - time.Since(warnings.begin))
		lines, times := warnings.about(complaintText)
		if len(lines) == 0 || times[0] > 4*time.Second {
			t.Fatalf("lines %q at %v, want the first within 4 s", lines, times)
		}
		if len(lines) < 5 || len(lines) > 8 {
			t.Errorf("%d lines in 5 minutes, at %v, want 5 to 8", len(lines), times)
		}
		if gap := times[len(times)-1] - times[len(times)-2]; gap < 30*time.Second {
			t.Errorf("the last two lines are %v apart, want at least 30 s", gap)
		}
		const why = "leads provisionally until 2 of 3 members are up: 1 joined; waiting for " +
			"127.0.0.1:7001 (memnet: dial 127.0.0.1:7001: no node listens there), " +
			"127.0.0.1:7002 (memnet: dial 127.0.0.1:7002: no node listens there)"
		if !strings.Contains(lines[0], why) || n.Status().NoLeader != why || !n.Status().Provisional {
			t.Errorf("got\n%s\nand in the status\n%s\nwant\n%s", lines[0], n.Status().NoLeader, why)
		}

		for more := lines; len(more) == len(lines); more, _ = warnings.about(complaintText) {
			time.Sleep(time.Second) // from now on, the same reason would not be logged for a minute
		}
		wrong := w.config(1, Config{})
		wrong.Size = 5
		other, err := Start(t.Context(), wrong, w.options(1)...)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Since(warnings.begin)
		time.Sleep(2 * diagnosis.WarnInterval)
		lines, times = warnings.about("127.0.0.1:7002 (differs in size (3 here, 5 there))")
		if len(lines) != 1 || times[0] > began+diagnosis.WarnInterval+time.Second {
			t.Errorf("another reason: %q at %v, want one line within %v after %v",
				lines, times, diagnosis.WarnInterval, began)
		}
		w.end(other)
		testResolved(t, w, n, warnings)
	})
}

// testResolved starts a second node and checks that one line reports the leader.
func testResolved(t *testing.T, w *world, n *Node, warnings *journal) {
	t.Helper()
	infos, logger := keep(zerolog.InfoLevel)
	second, err := w.start(1, Config{}, logger)
	if err != nil {
		t.Fatal(err)
	}
	w.nodes = append(w.nodes, second)
	if _, err := n.WaitLeader(w.within(time.Minute)); err != nil {
		t.Fatal(err)
	}
	before, _ := warnings.about(complaintText)
	time.Sleep(5 * time.Minute)
	if after, _ := warnings.about(complaintText); len(after) != len(before) {
		t.Errorf("with a leader it complains on: %q", after[len(before):])
	}
	if s := n.Status(); s.NoLeader != "" || s.Provisional {
		t.Errorf("with a leader: got %q, provisional %t, want none", s.NoLeader, s.Provisional)
	}
	// The second node has logged no warning, so it does not log that there is a leader.
	if got, _ := infos.about("there is a leader"); len(got) != 0 {
		t.Errorf("a node that had a leader soon logs %q, want nothing", got)
	}
}

// TestEndOfWarningIsLogged checks that after a warning about a missing leader, a node logs the next
// leader once. If the leader changed, the line about the change suffices. If the previous leader is
// back, the node must log a separate line.
func TestEndOfWarningIsLogged(t *testing.T) {
	const back = "there is a leader with authority"
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		infos, logger := keep(zerolog.InfoLevel)
		for i := range 3 {
			w.add(i, Config{}, logger)
			time.Sleep(time.Minute)
		}
		lines, _ := infos.about(`"took_ms":6`) // a minute
		if len(lines) != 1 || !strings.Contains(lines[0], "leader changed") {
			t.Errorf("founded after a minute: got %q, want one change of leader", lines)
		}
		if lines, _ := infos.about(back); len(lines) != 0 {
			t.Errorf("founded after a minute: got %q too", lines)
		}
		n := w.others(w.leader())[0]
		w.cut(n)
		time.Sleep(time.Minute)
		w.heal(n)
		time.Sleep(10 * time.Second)
		lines, _ = infos.about(back)
		if len(lines) != 1 || !strings.Contains(lines[0], `"version":1`) ||
			!strings.Contains(lines[0], `"leaderless_ms":`) {
			t.Errorf("cut off for a minute: got %q, want one line with version and time", lines)
		}
		if lines, _ := infos.about("leader changed"); len(lines) != 3 {
			t.Errorf("got %q, want one change of leader of each node", lines)
		}
	})
}

// TestFailoverCausesNoWarning checks that a fail-over causes no warning, since it is over
// before an operator could act.
func TestFailoverCausesNoWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.close()
		warnings, logger := keep(zerolog.WarnLevel)
		for i := range 3 {
			w.add(i, Config{}, logger)
		}
		if err := w.nodes[0].WaitActive(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		w.end(w.leader())
		time.Sleep(time.Minute)
		w.leader()
		if got, _ := warnings.about(complaintText); len(got) != 0 {
			t.Errorf("got %q, want nothing", got)
		}
	})
}

// TestOtherSecretIsLoggedOnBothSides checks that two nodes with different secrets both log the
// different secret as the reason.
func TestOtherSecretIsLoggedOnBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := simnet.NewPacketNet(time.Millisecond)
		warnings, logger := keep(zerolog.WarnLevel)
		for i, secret := range []string{clusterSecret, otherSecret} {
			n, err := Start(t.Context(), quicConfig(i+1, secret),
				WithSocket(p.Open), WithClock(time.Now), logger)
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
		}
		time.Sleep(20 * time.Second)
		for i := range 2 {
			want := fmt.Sprintf("10.0.0.%d:7000 "+
				"(certificate refused: the certificate of the other node is from another authority: "+
				"its secret, cluster name or CA file differs)", 2-i)
			if lines, _ := warnings.about(want); len(lines) == 0 {
				t.Errorf("node %d does not say %q", i+1, want)
			}
			// Each node is dialed 20 times in 20 seconds.
			host := fmt.Sprintf(`"peer":"10.0.0.%d:7000"`, 2-i)
			var refused []string
			lines, _ := warnings.about("handshake refused")
			for _, line := range lines {
				if strings.Contains(line, host) {
					refused = append(refused, line)
				}
			}
			if len(refused) != 1 {
				t.Errorf("node %d logs %q of the handshakes with the other, want one line", i+1, refused)
			}
		}
	})
}

// TestARestartedNodeShowsWhatItHolds checks the report of a restarted node that waits for others:
// it is not yet a member, but its store is not lost.
func TestARestartedNodeShowsWhatItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		w.durable()
		w.form()
		held := w.nodes[0].View()
		w.close()
		var n *Node
		_, err := Start(w.within(5*time.Second), w.config(0, Config{}),
			append(w.options(0), WithListening(func(early *Node) { n = early }))...)
		if !errors.Is(err, context.DeadlineExceeded) || n == nil {
			t.Fatalf("Start of one of three: got %v, node %v; want the end of its context, a node",
				err, n)
		}
		s := n.Status()
		if s.View.Version != held.Version || s.View.Revision != held.Revision ||
			len(s.View.Members) != 3 {
			t.Errorf("got version %d.%d with %d members, want %d.%d with 3", s.View.Version,
				s.View.Revision, len(s.View.Members), held.Version, held.Revision)
		}
		if s.Self.Identity != s.View.Self || s.Self.Status != member.None || s.Self.Name != "n0" {
			t.Errorf("got itself as %+v, want this run, without a status", s.Self)
		}
		if want := fmt.Sprintf("needs 2 of the 3 voters of version %d", held.Version); !strings.Contains(
			s.NoLeader, want) {
			t.Errorf("got %q, want %q", s.NoLeader, want)
		}
	})
}

// TestNodeNotAdmittedLogsIt checks that a node that is not admitted logs that it is not in the
// cluster, even though the cluster has a leader.
func TestNodeNotAdmittedLogsIt(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		warnings, logger := keep(zerolog.WarnLevel)
		_, err := Start(w.within(6*time.Second), w.config(3, Config{}), append(w.options(3), logger)...)
		if err == nil {
			t.Fatal("Start of a fourth of three: got no error")
		}
		lines, _ := warnings.about(`"message":"not in a cluster yet"`)
		if len(lines) != 1 || !strings.Contains(lines[0], `"why":"asked `) ||
			!strings.Contains(lines[0], "cluster full, all seats are taken") {
			t.Errorf("got %q, want one line about the full cluster", lines)
		}
	})
}
