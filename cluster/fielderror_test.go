// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// TestFieldErrors checks the FieldError of each fault that Validate finds: the field, the list
// element, the mentioned fields, and the text with other names.
func TestFieldErrors(t *testing.T) {
	rx := receiver.NewMux()
	receiver.Handle[int](rx, nil)
	receiver.Handle[string](rx, nil)
	for _, c := range []struct {
		config   Config
		field    string
		index    int
		mentions []string
		text     string // with other names
	}{
		{with(func(c *Config) { c.Addr = "" }), "Addr", -1, nil,
			"--addr is required: the host:port to listen on"},
		{with(func(c *Config) { c.Seeds = nil }), "Seeds", -1, nil,
			"--seeds is required: list at least one host:port, the same on every node"},
		{with(func(c *Config) { c.Seeds[1] = "Size:" }), "Seeds", 1, nil,
			`--seeds "Size:": member: invalid address "Size:": want a port from 1 to 65535`},
		{with(func(c *Config) { c.Memory, c.DataDir = true, "Size" }), "Memory", -1,
			[]string{"DataDir"}, `--memory contradicts (datadir) "Size": leave one of them out`},
		{with(func(c *Config) { c.HeartbeatTimeout = time.Minute }), "HeartbeatTimeout", -1,
			[]string{"LeaderTimeout"}, "--heartbeattimeout 1m0s must be at most (leadertimeout) 1s"},
		{with(func(c *Config) { c.TLSCA, c.TLSCert, c.TLSKey = "none", "none", "none" }), "TLSCA", -1,
			nil, "--tlsca: open none: no such file or directory"},
		{with(func(c *Config) { c.Receiver = rx }), "Receiver", -1, nil,
			"--receiver: receiver: the handler of int is nil"},
	} {
		all := fieldErrorsOf(t, c.config.Validate())
		e := all[0]
		name := func(field string) string { return "(" + strings.ToLower(field) + ")" }
		text := e.Text("--"+strings.ToLower(e.Field), name)
		if e.Field != c.field || e.Index != c.index || !slices.Equal(e.Mentions(), c.mentions) ||
			text != c.text {
			t.Errorf("%s[%d], mentions %v, %s\nwant %s[%d], %v, %s",
				e.Field, e.Index, e.Mentions(), text, c.field, c.index, c.mentions, c.text)
		}
	}
}

// fieldErrorsOf returns the FieldErrors in an error of Validate.
func fieldErrorsOf(t *testing.T, err error) (all []*FieldError) {
	t.Helper()
	joined, ok := errors.Unwrap(err).(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%v: want joined errors", err)
	}
	for _, one := range joined.Unwrap() {
		e, ok := one.(*FieldError)
		if !ok {
			t.Fatalf("%T %v: want a FieldError", one, one)
		}
		if _, ok := reflect.TypeFor[Config]().FieldByName(e.Field); !ok {
			t.Errorf("%v: Config has no field %s", e, e.Field)
		}
		all = append(all, e)
	}
	return all
}

// TestFieldErrorWraps checks that errors.Is and errors.As find the cause of a FieldError.
func TestFieldErrorWraps(t *testing.T) {
	err := with(func(c *Config) { c.TLSCA, c.TLSCert, c.TLSKey = "none", "none", "none" }).Validate()
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v: want it to wrap fs.ErrNotExist", err)
	}
	err = with(func(c *Config) { c.Seeds[1] = "db:" }).Validate()
	if e, ok := errors.AsType[*FieldError](err); !ok || errors.Unwrap(e.Err) == nil {
		t.Errorf("%v: want the error of %T within a FieldError", err, member.Address{})
	}
}
