// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Traits are the properties that a member announces. The leader publishes them in the roster
// (protocol.md section 3). No safety rule depends on them. The zero value is the default.
type Traits struct {
	Preference Preference `json:",omitzero"`
	Labels     Labels     `json:",omitzero"`
}

// Preference is NeverLeads or a number from 0, the default, to MaxPreference. Of the members that
// can lead, one with the greatest preference stands for election first.
type Preference int8

const (
	// NeverLeads is the preference of a witness: it votes, but never leads.
	NeverLeads Preference = -1
	// MaxPreference is the greatest preference.
	MaxPreference Preference = 100
)

// String returns "never" for NeverLeads, and otherwise the number.
func (p Preference) String() string {
	if p == NeverLeads {
		return "never"
	}
	return strconv.Itoa(int(p))
}

// ParsePreference parses the text of String.
func ParsePreference(text string) (Preference, error) {
	if text == NeverLeads.String() {
		return NeverLeads, nil
	}
	n, err := strconv.ParseInt(text, 10, 8)
	if p := Preference(n); err == nil && p >= 0 && p.IsValid() {
		return p, nil
	}
	return 0, fmt.Errorf("member: invalid preference %.20q: want never, or 0 to %d",
		text, MaxPreference)
}

// IsValid reports whether p is within its range.
func (p Preference) IsValid() bool { return NeverLeads <= p && p <= MaxPreference }

// Labels describe a member by keys and values, for example its zone. NewLabels creates them, and
// they can be compared with ==.
type Labels string // lines "key=value", sorted by key

// MaxLabelBytes is the maximum size of the labels of a member. Each label takes the bytes of its
// key and its value, and two more.
const MaxLabelBytes = 512

// NewLabels returns the labels with the given keys and values. A key is printable, is not empty,
// and contains no '='. A value is printable.
func NewLabels(values map[string]string) (Labels, error) {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if key == "" || strings.Contains(key, "=") || strings.Contains(values[key], "\n") {
			return "", fmt.Errorf("member: invalid label %.80q=%.80q: the key is empty or contains '=', "+
				"or the value contains a line end", key, values[key])
		}
		b.WriteString(key + "=" + values[key] + "\n")
	}
	l := Labels(b.String())
	return l, l.Check()
}

// Check returns an error if l cannot be a result of NewLabels.
func (l Labels) Check() error {
	if len(l) > MaxLabelBytes {
		return fmt.Errorf("member: labels of %d bytes, the limit is %d", len(l), MaxLabelBytes)
	}
	last := ""
	for line := range strings.Lines(string(l)) {
		text, ended := strings.CutSuffix(line, "\n")
		key, _, ok := strings.Cut(text, "=")
		switch {
		case !ended || !ok || key <= last:
			return errors.New("member: labels are not sorted lines of the form key=value")
		case !IsPrintable(text):
			return fmt.Errorf("member: label %.80q is not printable", text)
		}
		last = key
	}
	return nil
}

// All yields the keys and values, sorted by key.
func (l Labels) All() iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		for line := range strings.Lines(string(l)) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			if !yield(key, value) {
				return
			}
		}
	}
}

// Get returns the value of a key, or false if there is no such label.
func (l Labels) Get(key string) (string, bool) {
	for k, value := range l.All() {
		if k == key {
			return value, true
		}
	}
	return "", false
}

// String returns the labels as text for people: key=value, separated by commas.
func (l Labels) String() string {
	return strings.ReplaceAll(strings.TrimSuffix(string(l), "\n"), "\n", ", ")
}
