// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
	"strings"
	"testing"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

var (
	addrA = member.Address{Host: "a", Port: 1}
	addrB = member.Address{Host: "b", Port: 1}
)

// greets returns the greetings of two compatible nodes.
func greets() (ours, theirs message.Message) {
	greet := func(from, to member.Address, active bool) message.Message {
		return message.Message{
			From: member.Identity{Address: from, StoreID: member.StoreID{1}, Incarnation: 1},
			To:   to,
			Body: message.Greet{
				Active:  active,
				Cluster: "c",
				Size:    3,
				Timings: message.Timings{
					HeartbeatInterval: 1, HeartbeatTimeout: 2, LeaderTimeout: 3,
					LeaseTimeout: 4, TTLTimeout: 5, RetryInterval: 6,
				},
				MinProtocol: 2, MaxProtocol: 3,
			},
		}
	}
	return greet(addrA, addrB, true), greet(addrB, addrA, false)
}

// bothWays returns the result of CheckGreet at each end of a connection.
func bothWays(ours, theirs message.Message) [2]error {
	return [2]error{CheckGreet(ours, theirs), CheckGreet(theirs, ours)}
}

func TestCheckGreetAccepts(t *testing.T) {
	ours, theirs := greets()
	for i, err := range bothWays(ours, theirs) {
		if err != nil {
			t.Errorf("direction %d: %v", i, err)
		}
	}
}

func TestCheckGreetRefusesEachDifference(t *testing.T) {
	type (
		greet   = message.Greet
		timings = message.Timings
	)
	tests := []struct {
		field        string
		ours, theirs string
		edit         func(*greet, *timings)
	}{
		{"Cluster", "c", "d", func(g *greet, _ *timings) { g.Cluster = "d" }},
		{"Size", "3", "5", func(g *greet, _ *timings) { g.Size = 5 }},
		{"HeartbeatInterval", "1ns", "1s", func(_ *greet, t *timings) { t.HeartbeatInterval = 1e9 }},
		{"HeartbeatTimeout", "2ns", "1s", func(_ *greet, t *timings) { t.HeartbeatTimeout = 1e9 }},
		{"LeaderTimeout", "3ns", "1s", func(_ *greet, t *timings) { t.LeaderTimeout = 1e9 }},
		{"LeaseTimeout", "4ns", "1s", func(_ *greet, t *timings) { t.LeaseTimeout = 1e9 }},
		{"TTLTimeout", "5ns", "1s", func(_ *greet, t *timings) { t.TTLTimeout = 1e9 }},
		{"RetryInterval", "6ns", "1s", func(_ *greet, t *timings) { t.RetryInterval = 1e9 }},
		{"Protocol", "2 to 3", "4 to 3", func(g *greet, _ *timings) { g.MinProtocol = 4 }},
		{"Protocol", "2 to 3", "2 to 1", func(g *greet, _ *timings) { g.MaxProtocol = 1 }},
	}
	for _, test := range tests {
		ours, theirs := greets()
		body := theirs.Body.(message.Greet)
		test.edit(&body, &body.Timings)
		theirs.Body = body
		errs := bothWays(ours, theirs)
		want := transport.ConfigMismatchError{Field: test.field, Ours: test.ours, Theirs: test.theirs}
		got, ok := errors.AsType[*transport.ConfigMismatchError](errs[0])
		if !ok || *got != want {
			t.Errorf("%s: got %v, want %+v", test.field, errs[0], want)
		}
		want.Ours, want.Theirs = want.Theirs, want.Ours
		if got, ok = errors.AsType[*transport.ConfigMismatchError](errs[1]); !ok || *got != want {
			t.Errorf("%s: the other end got %v, want %+v", test.field, errs[1], want)
		}
		if text := errs[0].Error(); !strings.Contains(text, test.field) || strings.Contains(text, "\n") {
			t.Errorf("%s: text %q, want one line that names the field", test.field, text)
		}
	}
}

func TestCheckGreetNamesEveryFault(t *testing.T) {
	ours, theirs := greets()
	theirs.Body = message.Greet{MinProtocol: 9, MaxProtocol: 9}
	err := CheckGreet(ours, theirs)
	for _, field := range []string{
		"Cluster", "Size", "HeartbeatInterval", "HeartbeatTimeout", "LeaderTimeout",
		"LeaseTimeout", "TTLTimeout", "RetryInterval", "Protocol",
	} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("everything differs: %v does not name %s", err, field)
		}
	}
}

func TestCheckGreetRefusesOtherAddresses(t *testing.T) {
	other := member.Address{Host: "c", Port: 1}
	ours, theirs := greets()
	theirs.From.Address = other // this node dialed b
	answered := bothWays(ours, theirs)
	ours, theirs = greets()
	theirs.To = other // the peer dialed this node under another name
	dialed := bothWays(ours, theirs)
	for _, err := range []error{answered[0], answered[1], dialed[0], dialed[1]} {
		got, ok := errors.AsType[*transport.ConfigMismatchError](err)
		if !ok || got.Field != "Advertise" {
			t.Errorf("greet of another address: got %v, want a mismatch of Address", err)
		}
	}
	ours, theirs = greets()
	theirs.From.Address = addrA
	for i, err := range bothWays(ours, theirs) {
		if !errors.Is(err, ErrSelf) {
			t.Errorf("greet from the own address, direction %d: got %v, want ErrSelf", i, err)
		}
	}
}

func TestCheckGreetRefusesWhatIsNoGreet(t *testing.T) {
	ours, theirs := greets()
	same := theirs
	same.Body = ours.Body // both active
	query := theirs
	query.Body = message.LeaderQuery{}
	for _, m := range []message.Message{same, query, {}} {
		if err := CheckGreet(ours, m); !errors.Is(err, ErrNotGreet) {
			t.Errorf("CheckGreet of %+v: got %v, want ErrNotGreet", m.Body, err)
		}
	}
}

func TestOtherSeedsAreAWarning(t *testing.T) {
	ours, theirs := greets()
	our, their := ours.Body.(message.Greet), theirs.Body.(message.Greet)
	if err := GreetWarning(our, their); err != nil {
		t.Errorf("same seeds: %v", err)
	}
	their.SeedDigest++
	theirs.Body = their
	if err := GreetWarning(our, their); !errors.Is(err, ErrSeedsDiffer) {
		t.Errorf("other seeds: got %v, want ErrSeedsDiffer", err)
	}
	if err := CheckGreet(ours, theirs); err != nil {
		t.Errorf("other seeds are refused: %v", err)
	}
}

func TestCommonProtocol(t *testing.T) {
	tests := []struct {
		aMin, aMax, bMin, bMax uint16
		version                uint16
		ok                     bool
	}{
		{1, 1, 1, 1, 1, true},
		{1, 3, 2, 5, 3, true},
		{2, 5, 1, 3, 3, true},
		{1, 5, 2, 3, 3, true},
		{1, 2, 3, 4, 2, false},
		{3, 4, 1, 2, 2, false},
	}
	for _, test := range tests {
		version, ok := CommonProtocol(
			message.Greet{MinProtocol: test.aMin, MaxProtocol: test.aMax},
			message.Greet{MinProtocol: test.bMin, MaxProtocol: test.bMax},
		)
		if version != test.version || ok != test.ok {
			t.Errorf("%+v: got %d, %v", test, version, ok)
		}
	}
}
