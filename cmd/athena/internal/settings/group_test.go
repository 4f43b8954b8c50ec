// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/athena-go/athena/election"
)

// readGroup reads the options of the group g from arguments.
func readGroup(t *testing.T, args ...string) (election.Options, error) {
	t.Helper()
	var g Group
	f := pflag.NewFlagSet("group", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	g.Define(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return g.Read(f, "g")
}

// timed returns options with the strategy Lowest and changed durations.
func timed(change func(*election.Timing)) election.Options {
	o := election.Options{Strategy: election.Lowest, Timing: election.DefaultTiming()}
	change(&o.Timing)
	return o
}

// TestGroupOptions checks the options that flags, keys of the file and keys of Fabric set.
func TestGroupOptions(t *testing.T) {
	fabric := "startupGracePeriod: 20s, membershipSampleInterval: 2s, leaderAliveThreshold: 12s, " +
		"leaderElectionDuration: 6s"
	allFabric := timed(func(t *election.Timing) {
		t.Grace, t.Sample, t.Alive, t.Campaign = 20*time.Second, 2*time.Second, 12*time.Second,
			6*time.Second
	})
	for _, c := range []struct {
		text, args string
		want       election.Options
	}{
		{"", "--strategy quorum", election.Options{Strategy: election.Quorum}},
		{"", "--strategy lowest --alive 1s",
			timed(func(t *election.Timing) { t.Alive = time.Second })},
		{"groups: {g: {strategy: static, retry-for: 1h}, h: {strategy: lowest}}", "",
			election.Options{Strategy: election.Static, RetryFor: time.Hour}},
		{"groups: {g: {strategy: lowest, hold: 3s}}", "--hold 4s",
			timed(func(t *election.Timing) { t.Hold = 4 * time.Second })},
		{"groups: {g: {strategy: lowest, hold: 3s}}", "--strategy standby",
			election.Options{Strategy: election.Standby}},
		{"groups: {g: {hold: 3s}}", "--strategy lowest",
			timed(func(t *election.Timing) { t.Hold = 3 * time.Second })},
		{"groups: {h: {strategy: lowest}}", "--strategy static",
			election.Options{Strategy: election.Static}},
		{"groups: {g: {useLeaderElection: true, orgLeader: false, " + fabric + "}}", "", allFabric},
		{"groups: {g: {useLeaderElection: true}}", "", timed(func(*election.Timing) {})},
		{"groups: {g: {useLeaderElection: false, orgLeader: true, " + fabric + "}}", "",
			election.Options{Strategy: election.Static}},
		{"groups: {g: {orgLeader: false, useLeaderElection: false}}", "",
			election.Options{Strategy: election.Standby}},
		{"groups: {g: {strategy: lowest, " + fabric + "}}", "", allFabric},
	} {
		args := append(strings.Fields(c.args), "--config", writeConfig(t, c.text))
		got, err := readGroup(t, args...)
		if err != nil || got != c.want {
			t.Errorf("%s with %q: %+v, %v, want %+v", c.text, c.args, got, err, c.want)
		}
	}
}

// TestGroupFaults checks that each fault names the flag or the line, and that a node refuses the
// same files.
func TestGroupFaults(t *testing.T) {
	long := strings.Repeat("n", election.MaxGroupBytes+1)
	for _, c := range []struct{ text, args, want string }{
		{"", "", "--strategy is missing: must be quorum, lowest, static or standby"},
		{"groups: {h: {strategy: lowest}}", "", "--strategy is missing"},
		{"", "--strategy gossip", `--strategy "gossip": must be quorum`},
		{"", "--strategy lowest --grace -1s", "--grace -1s: must be 1ms to 24h0m0s"},
		{"", "--strategy lowest --hold 25h", "--hold 25h0m0s: must be 1ms to"},
		{"", "--strategy lowest --sample 0s", "--sample 0s: must be 1ms to"},
		{"", "--strategy lowest --sample 16s",
			"--sample 16s: must not exceed --grace, which is 15s"},
		{"", "--strategy static --alive 1s",
			"--alive applies only to the strategy lowest, not to static"},
		{"", "--strategy static --retry-for -1s", "--retry-for -1s: must not be negative"},
		{"groups:\n  g:\n    strategy: gossip", "", `F:3: strategy "gossip": must be quorum`},
		{"groups:\n  g: {strategy: lowest, alive: 0s}", "", "F:2: alive 0s: must be 1ms to"},
		{"groups:\n  g: {strategy: lowest, leaderAliveThreshold: -5s}", "",
			"F:2: leaderAliveThreshold: alive -5s: must be 1ms to"},
		{"groups:\n  g:\n    strategy: quorum\n    leaderAliveThreshold: 5s", "",
			"F:4: leaderAliveThreshold: alive applies only to the strategy lowest, not to quorum"},
		{"groups:\n  g:\n    useLeaderElection: true\n    orgLeader: true", "",
			"F:4:1: useLeaderElection and orgLeader are both true: to elect a leader, set orgLeader: " +
				"false; to always lead here, set useLeaderElection: false"},
		{"groups:\n  g:\n    strategy: static\n    orgLeader: true", "",
			"F:4:1: orgLeader contradicts strategy in line 3: remove one of them"},
		{"groups:\n  g:\n    alive: 3s\n    leaderAliveThreshold: 3s", "",
			"F:4:1: leaderAliveThreshold contradicts alive in line 3: remove one of them"},
		{"groups:\n  g:\n    leader-alive-threshold: 3s", "",
			`F:3:5: unknown key "leader-alive-threshold"`},
		{"groups: {g: {useleaderelection: true}}", "", "did you mean useLeaderElection?"},
		{"groups: {g: {command: x}}", "", `unknown key "command"; athena help group lists the flags`},
		{"groups: {g: {orgLeader: 'true'}}", "", "orgLeader \"true\": must be true or false, without"},
		{"groups: {g: {alive: 10}}", "", `alive "10": must be a duration with a unit`},
		{"groups: {g: {alive: 1s, alive: 2s}}", "", "alive: duplicate key"},
		{"groups: {g: {}, g: {}}", "", `"g": duplicate group, first in line 1`},
		{"groups: {g: [lowest]}", "", "F:1:13: must consist of lines of the form key: value"},
		{"groups: [g]", "", "F:1:9: groups: must have lines of the form NAME:"},
		{"groups: {5: {}}", "", "F:1:10: invalid name of a group"},
		{"groups: {" + long + ": {}}", "", "must have 1 to 128 printable characters"},
		{"groups: {'': {}}", "", "must have 1 to 128 printable characters"},
		{"groups: {g: {config: x}}", "", "config: a file cannot include another"},
		{"groups: {g: &a {strategy: lowest}, h: *a}", "", "F:1:39: must consist of"},
	} {
		t.Chdir(t.TempDir())
		if err := os.WriteFile("F", []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readGroup(t, append(strings.Fields(c.args), "--config", "F")...)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s with %q: %v, want only %q", c.text, c.args, err, c.want)
		}
		s, f := parsed(t, "--config", "F")
		_, err = s.Read(f, in(nil))
		if missing := strings.Contains(c.want, "missing"); c.text != "" && !missing &&
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("a node with %s: %v, want %q", c.text, err, c.want)
		}
	}
}

// TestEffectiveGroups checks that every setting of the groups in the file is listed with its place.
func TestEffectiveGroups(t *testing.T) {
	text := "groups:\n  b:\n    strategy: static\n  a:\n    useLeaderElection: true\n    hold: 3s\n"
	path := writeConfig(t, text)
	s, f := parsed(t, "--config", path)
	c, _ := s.Read(f, in(nil))
	var got []string
	for _, e := range s.Effective(f, c) {
		if strings.HasPrefix(e.Key, "groups.") {
			got = append(got, fmt.Sprintf("%s %v %s %s", e.Key, e.Value, e.From,
				strings.TrimPrefix(e.At, path)))
		}
	}
	want := []string{
		"groups.b.strategy static file :3", "groups.b.retry-for 0s default ",
		"groups.a.strategy lowest file :5: useLeaderElection", "groups.a.retry-for 0s default ",
		"groups.a.grace 15s default ", "groups.a.sample 1s default ", "groups.a.alive 10s default ",
		"groups.a.campaign 5s default ", "groups.a.hold 3s file :6",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
