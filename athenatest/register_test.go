// SPDX-License-Identifier: Apache-2.0

package athenatest_test

import (
	"errors"
	"testing"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/member"
)

func TestRegister(t *testing.T) {
	var r athenatest.Register
	for _, w := range []struct {
		token  uint64
		fenced bool
	}{{3, false}, {3, false}, {2, true}, {5, false}, {3, true}, {5, false}} {
		err := r.Write(member.Token{Version: w.token}, "x")
		if errors.Is(err, athenatest.ErrFenced) != w.fenced || (err != nil) != w.fenced {
			t.Errorf("token %d: got %v, want it fenced off: %v", w.token, err, w.fenced)
		}
	}
	if got, late := len(r.Written()), len(r.Refused()); got != 4 || late != 2 {
		t.Errorf("%d written and %d refused, want 4 and 2", got, late)
	}
	if got := r.Refused()[1]; got.Token.Version != 3 || got.Value != "x" {
		t.Errorf("the second that was refused is %v", got)
	}
}
