// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/member"
)

// one is a generic type. Its field differs between releases.
type one[T any] struct{ N T }

// TestNamesOfGenericTypes checks that a type is not sent under a name that contains a package.
func TestNamesOfGenericTypes(t *testing.T) {
	type local struct{ ID int }
	mux := NewMux()
	started(t, mux, Setup{})
	for _, event := range []any{
		one[order]{}, one[local]{}, one[map[string]*member.Member]{}, &one[time.Duration]{},
		one[one[order]]{}, one[struct{ At time.Time }]{},
	} {
		_, err := mux.Name(event)
		if !errors.Is(err, ErrUnsendable) || !strings.Contains(err.Error(), "with receiver.Named") {
			t.Errorf("%T: got %v, want ErrUnsendable and Named", event, err)
		}
	}
	if name, err := mux.Name(one[map[string]int]{}); name != "one[map[string]int]" || err != nil {
		t.Errorf("got %q, %v, want a name without packages", name, err)
	}
	// A program keeps the name of before while older nodes run.
	const old = "one[github.com/athena-go/athena/receiver.order]"
	Register[one[order]](mux, Named(old))
	if name, err := mux.Name(one[order]{}); name != old || err != nil {
		t.Errorf("got %q, %v, want %q", name, err, old)
	}
	unnamed := NewMux()
	Register[one[order]](unnamed)
	err := unnamed.Start(Setup{})
	if err == nil || !strings.Contains(err.Error(), `"`+old+`" contains a package`) {
		t.Errorf("got %v, want an error with %q", err, old)
	}
}
