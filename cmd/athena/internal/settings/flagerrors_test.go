// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"reflect"
	"testing"

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
	} {
		got := flagError{c.err, f}
		if got.Error() != c.want || !errors.Is(got, c.err) {
			t.Errorf("got\n%v\nwant\n%s", got, c.want)
		}
	}
}
