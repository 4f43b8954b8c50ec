// SPDX-License-Identifier: Apache-2.0

package mesh

import "testing"

// TestSmallerDialerStays checks the rule of protocol.md section 8: the connection whose dialer has
// the smaller address is kept.
func TestSmallerDialerStays(t *testing.T) {
	byA, byB := Ends{Dialer: addrA, ID: 1}, Ends{Dialer: addrB, ID: 2}
	if got := Resolve(byB, byA, 1, 1); got != Switch {
		t.Errorf("the next one has the smaller dialer: got %v, want %v", got, Switch)
	}
	if got := Resolve(byA, byB, 1, 1); got != Keep {
		t.Errorf("the present one has the smaller dialer: got %v, want %v", got, Keep)
	}
}

func TestResolve(t *testing.T) {
	tests := []struct {
		name             string
		have, next       Ends
		haveRun, nextRun uint64
		want             Verdict
	}{
		{"later run", Ends{addrA, 1, 0}, Ends{addrB, 2, 0}, 1, 2, Replace},
		{"later run, dialed by the peer's peer", Ends{addrB, 1, 0}, Ends{addrA, 2, 0}, 1, 2, Replace},
		{"earlier run", Ends{addrB, 1, 0}, Ends{addrA, 2, 0}, 2, 1, Refuse},
		{"earlier run that lost the present one", Ends{addrB, 1, 0}, Ends{addrA, 2, 1}, 2, 1, Refuse},
		{"the same dialer again", Ends{addrA, 1, 0}, Ends{addrA, 2, 0}, 1, 1, Replace},
		{"the greater dialer again", Ends{addrB, 1, 0}, Ends{addrB, 2, 0}, 1, 1, Replace},
		{"its dialer lost the present one", Ends{addrA, 1, 0}, Ends{addrB, 2, 1}, 1, 1, Replace},
		{"its dialer lost another one", Ends{addrA, 1, 0}, Ends{addrB, 2, 7}, 1, 1, Keep},
		{"given up before it arrived", Ends{addrB, 1, 2}, Ends{addrA, 2, 0}, 1, 1, Refuse},
	}
	for _, test := range tests {
		if got := Resolve(test.have, test.next, test.haveRun, test.nextRun); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

// TestBothEndsResolveAlike checks that two nodes keep the same one of two connections, whichever
// connection each node sees first.
func TestBothEndsResolveAlike(t *testing.T) {
	for lostByA := range uint64(3) {
		for lostByB := range uint64(3) {
			byA, byB := Ends{addrA, 1, lostByA}, Ends{addrB, 2, lostByB}
			if lostByA == 2 && lostByB == 1 {
				continue // impossible: each connection would have been dialed after the loss of the other
			}
			aStays := stays(Resolve(byB, byA, 1, 1))
			bStays := stays(Resolve(byA, byB, 1, 1))
			if aStays == bStays {
				t.Errorf("%+v and %+v: the order decides which one stays", byA, byB)
			}
		}
	}
}

// stays reports whether the next connection is kept.
func stays(v Verdict) bool { return v == Switch || v == Replace }
