// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// This file explains why a line matches no form.

const listsAll = "test/scenarios.md lists all"

// A looseForm is a form that also accepts wrong words in its places.
type looseForm struct {
	form    string
	places  []string
	pattern *regexp.Regexp
}

// loosePlaces are the patterns of places that also accept wrong words.
var loosePlaces = map[string]string{
	"NODES": `(\S+(?:,? n\S+)*)`, "NODE": `(\S+)`, "NUMBER": `(\S+)`,
	"DURATION": `([^\s:]+(?: [^\s:]+){0,2})`, "COND": `(.+)`,
	"KIND": `(\S+)`, "REASON": `(.+)`, "STATUS": `(\S+)`, "DECISION": `(.+)`, "ROLE": `(.+)`,
}

var looseForms = sync.OnceValue(func() map[string]looseForm {
	all := map[string]looseForm{}
	for _, form := range slices.Concat(verbForms(), conditionForms()) {
		l := looseForm{form: form, places: placeWord.FindAllString(form, -1)}
		loose := placeWord.ReplaceAllStringFunc(form, func(word string) string {
			return loosePlaces[word]
		})
		l.pattern = regexp.MustCompile(`^` + loose + `$`)
		all[form] = l
	}
	return all
})

// fault returns the only word of a line that does not fit its place. It returns "" if the line does
// not have this form or has more than one such word.
func (l looseForm) fault(line string) string {
	text := l.pattern.FindStringSubmatch(line)
	if text == nil || strings.TrimSpace(placeWord.ReplaceAllString(l.form, "")) == "" {
		return ""
	}
	var faults []string
	for i, place := range l.places {
		if !regexp.MustCompile(`^` + places()[place] + `$`).MatchString(text[i+1]) {
			faults = append(faults, fmt.Sprintf("%q is not a %s: %s", text[i+1], place, mayStand(place)))
		}
	}
	if len(faults) != 1 {
		return ""
	}
	return fmt.Sprintf("%s\nthe line is read as: %s", faults[0], l.form)
}

// mayStand describes the words that a place accepts.
func mayStand(place string) string {
	switch place {
	case "NODES":
		return "want one or more of n1, n2, n3, ..., with nothing but spaces between them"
	case "NODE":
		return "want one of n1, n2, n3, ..."
	case "NUMBER":
		return "want a whole number"
	case "DURATION":
		return "want a number and a unit: " + strings.Join(slices.Sorted(maps.Keys(units)), ", ")
	default:
		return "want one of " + strings.Join(placeWords()[place], ", ")
	}
}

// notUnderstood returns the error for a line or a condition that matches no form.
func notUnderstood(what, line string, forms []string) error {
	for _, form := range forms {
		if fault := looseForms()[form].fault(line); fault != "" {
			return fmt.Errorf("%q is not a %s: %s", line, what, fault)
		}
	}
	return fmt.Errorf("%q is not a %s; the nearest:\n\t%s\n%s",
		line, what, strings.Join(nearest(line, forms), "\n\t"), listsAll)
}

// nearest returns the forms that may have been meant: the forms that begin with the first word of
// the line. If there are none, it returns the few forms with the smallest edit distance.
func nearest(line string, forms []string) []string {
	const few = 5
	said := shape(line)
	same := slices.DeleteFunc(slices.Clone(forms), func(form string) bool {
		return len(said) == 0 || shape(form)[0] != said[0]
	})
	if len(same) == 0 {
		same = slices.Clone(forms)
	}
	slices.SortStableFunc(same, func(a, b string) int {
		if d := distance(said, shape(a)) - distance(said, shape(b)); d != 0 {
			return d
		}
		return distance([]rune(line), []rune(a)) - distance([]rune(line), []rune(b))
	})
	return same[:min(few, len(same))]
}

var (
	somePlaces = regexp.MustCompile(`\b` + nodesPattern + `\b|\bNODES?\b`)
	someNumber = regexp.MustCompile(`\b[0-9.]+\b`)
)

// shape returns the words of a line, with placeholders for words that look like places. Each
// placeholder appears twice, so that it counts twice in an edit distance.
func shape(line string) (out []string) {
	line = regexp.MustCompile(places()["DURATION"]).ReplaceAllString(line, "DURATION")
	line = somePlaces.ReplaceAllString(line, "NODES")
	line = someNumber.ReplaceAllString(line, "NUMBER")
	for word := range strings.FieldsSeq(strings.NewReplacer(":", "", ",", "").Replace(line)) {
		if out = append(out, word); placeWord.MatchString(word) {
			out = append(out, word)
		}
	}
	return out
}

// distance returns the edit distance between a and b.
func distance[T comparable](a, b []T) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		before := row[0]
		row[0] = i + 1
		for j, y := range b {
			change := before
			if x != y {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}
