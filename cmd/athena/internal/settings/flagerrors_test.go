// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
)

// TestEveryFieldHasItsFlag checks that every field of cluster.Config has a flag, except fields that
// no flag sets.
func TestEveryFieldHasItsFlag(t *testing.T) {
	f := Flags()
	unset := map[string]bool{"Receiver": true}
	for field := range reflect.TypeFor[cluster.Config]().Fields() {
		flag, ok := flagOf[field.Name]
		if ok == unset[field.Name] || ok && f.Lookup(flag) == nil {
			t.Errorf("%s: flag %q, want one of run", field.Name, flag)
		}
	}
}

// TestFlagErrorNamesOrigin checks that the text names flags or variables, leaves values as they
// are, and indents the response of each seed.
func TestFlagErrorNamesOrigin(t *testing.T) {
	seed := member.Address{Host: "db-1", Port: 7000}
	mismatch := func(field, ours, theirs string) error {
		return &cluster.ConfigMismatchError{Field: field, Ours: ours, Theirs: theirs}
	}
	f := Flags()
	environ := map[string]string{"ATHENA_SIZE": "3"}
	if err := FromEnvironment(f, in(environ)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{cluster.Config{Addr: "Size:x", Size: 1, Seeds: []string{"Size:x"}}.Validate(),
			`--addr "Size:x": must be host:port with a port from 1 to 65535
--seeds[0] "Size:x": member: invalid address "Size:x": want a port from 1 to 65535`},
		{&cluster.JoinError{Cause: errors.New("stopped"), Asked: []cluster.Answer{{From: seed,
			Err: errors.Join(mismatch("Size", "3", "5"), mismatch("TTLTimeout", "1s", "2s"))}}},
			`could not join: stopped
	db-1:7000: ATHENA_SIZE differs: 3 here, 5 at the peer: configure the same on every node
		the default --ttl-timeout differs: 1s here, 2s at the peer` +
				`: configure the same on every node`},
		{mismatch("Advertise", "db-1:7000", "10.0.0.1:7000"), "the advertised address differs: " +
			"db-1:7000 here, 10.0.0.1:7000 at the peer: correct it, the seeds (--advertise, --seeds), " +
			"or where the name leads in DNS: each node must be dialed at the address that it advertises"},
	} {
		got := flagError{c.err, f}
		if got.Error() != c.want || !errors.Is(got, c.err) {
			t.Errorf("got\n%v\nwant\n%s", got, c.want)
		}
	}
}

// TestFlagErrorNamesTheProfile checks that the first line names the profile if the timings of the
// peer are exactly those of another one.
func TestFlagErrorNamesTheProfile(t *testing.T) {
	f := Flags()
	if err := FromEnvironment(f, in(map[string]string{"ATHENA_LEADER_TIMEOUT": "3s"})); err != nil {
		t.Fatal(err)
	}
	ours, local := cluster.DefaultConfig(), cluster.LocalConfig().WithDefaults()
	ours.LeaderTimeout = 3 * time.Second
	ours = ours.WithDefaults()
	var differ []error
	here := Timings(&ours)
	for i, there := range Timings(&local) {
		for field, flag := range flagOf {
			if flag == there.Flag && *here[i].Value != *there.Value {
				differ = append(differ, &cluster.ConfigMismatchError{
					Field: field, Ours: here[i].Value.String(), Theirs: there.Value.String(),
				})
			}
		}
	}
	want := "--profile differs: lan here, local at the peer: configure the same on every node\n"
	got := flagError{errors.Join(differ...), f}.Error()
	if !strings.HasPrefix(got, want) || strings.Count(got, "\n") != len(differ) {
		t.Errorf("got\n%s\nwant %d lines and first\n%s", got, len(differ)+1, want)
	}
	alike := Flags() // the timings of local, flag by flag
	for _, timing := range Timings(&local) {
		if err := alike.Set(timing.Flag, timing.Value.String()); err != nil {
			t.Fatal(err)
		}
	}
	size := errors.Join(&cluster.ConfigMismatchError{Field: "Size", Ours: "3", Theirs: "5"})
	if got := (flagError{size, alike}).Error(); strings.Contains(got, "profile") {
		t.Errorf("another size: got %s", got)
	}
	for name, some := range map[string][]error{
		"not all of it": differ[1:],
		"only own flag": {&cluster.ConfigMismatchError{Field: "LeaderTimeout", Ours: "3s", Theirs: "1s"}},
	} {
		if got := (flagError{errors.Join(some...), f}).Error(); strings.Contains(got, "profile") {
			t.Errorf("%s: got %s", name, got)
		}
	}
}
