// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/athena-go/athena/member"
)

func TestLabels(t *testing.T) {
	values := map[string]string{"zone": "a", "http": "http://10.0.0.1:80/?x=1", "empty": ""}
	l, err := member.NewLabels(values)
	if err != nil {
		t.Fatal(err)
	}
	if got := maps.Collect(l.All()); !maps.Equal(got, values) {
		t.Errorf("All yields %v, want %v", got, values)
	}
	if got, ok := l.Get("http"); !ok || got != values["http"] {
		t.Errorf("Get(http) = %q, %v", got, ok)
	}
	if got, ok := l.Get("htt"); ok {
		t.Errorf("Get(htt) = %q, want no label", got)
	}
	if got, want := l.String(), "empty=, http=http://10.0.0.1:80/?x=1, zone=a"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	if none, err := member.NewLabels(nil); err != nil || none != "" || none.String() != "" {
		t.Errorf("NewLabels(nil) = %q, %v", none, err)
	}
}

func TestInvalidLabels(t *testing.T) {
	for key, value := range map[string]string{
		"": "v", "a=b": "v", "a\nb": "v", "a": "x\ny", "e": "x\nf=y", "b": "\x1b[2J", "c": "\xff",
		"d": strings.Repeat("v", member.MaxLabelBytes-2),
	} {
		if l, err := member.NewLabels(map[string]string{key: value}); err == nil {
			t.Errorf("NewLabels(%q: %q) = %q, want an error", key, value, l)
		}
	}
	most := map[string]string{"d": strings.Repeat("v", member.MaxLabelBytes-3)}
	if _, err := member.NewLabels(most); err != nil {
		t.Errorf("labels of %d bytes: %v", member.MaxLabelBytes, err)
	}
}

func TestPreferences(t *testing.T) {
	for text, want := range map[string]member.Preference{
		"never": member.NeverLeads, "0": 0, "1": 1, "100": member.MaxPreference,
	} {
		p, err := member.ParsePreference(text)
		if err != nil || p != want || p.String() != text {
			t.Errorf("ParsePreference(%q) = %v, %v, want %d", text, p, err, want)
		}
	}
	for _, text := range []string{"", "-1", "101", "1000", "Never", "1.5"} {
		if p, err := member.ParsePreference(text); err == nil {
			t.Errorf("ParsePreference(%q) = %v, want an error", text, p)
		}
	}
}

// TestDigestCoversTraits checks that every change of traits changes the digest.
func TestDigestCoversTraits(t *testing.T) {
	seen := map[uint64]member.Traits{}
	for _, traits := range []member.Traits{
		{}, {Preference: 1}, {Preference: member.NeverLeads}, {Labels: "a=1\n"}, {Labels: "a=2\n"},
		{Preference: 1, Labels: "a=1\n"},
	} {
		s := member.State{Roster: member.Roster{{Traits: traits}}}
		if o, ok := seen[s.Digest()]; ok {
			t.Errorf("%+v and %+v have the same digest", traits, o)
		}
		seen[s.Digest()] = traits
	}
}
