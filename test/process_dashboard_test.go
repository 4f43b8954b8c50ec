// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// What the page says, as expressions of JavaScript.
const (
	pageVerdict = `document.querySelector("#verdict .words").textContent`
	pageFocus   = `(document.activeElement.getAttribute("aria-label") ?? document.activeElement.id)`
	// pageMarks are the names of the nodes in whose columns something is marked.
	pageMarks = `[...new Set([...document.querySelectorAll("#beliefs td.differs")].map((td) =>
		document.querySelectorAll("#beliefs thead .name")[td.cellIndex - 1].textContent))].join()`
)

// pageLeader is the leader that the page names, or waits for another than one.
func pageLeader(b *browser, but string) (leader string) {
	b.t.Helper()
	eventually(b.t, "the page names a leader other than "+but, func() bool {
		words := strings.Fields(look[string](b, pageVerdict))
		ok := len(words) > 2 && strings.Join(words[1:], " ") == "leads with authority" && words[0] != but
		if ok {
			leader = words[0]
		}
		return ok
	})
	return leader
}

// press presses Tab until a control has the focus, and then a key.
func (b *browser) press(control, key string) {
	b.t.Helper()
	for range 60 {
		if look[string](b, pageFocus) == control {
			b.do(chromedp.KeyEvent(key))
			return
		}
		b.do(chromedp.KeyEvent("\t"))
	}
	b.t.Fatalf("Tab never comes to %q", control)
}

// TestDashboard watches a demo in a real browser, and breaks it from there, by
// keyboard alone.
func TestDashboard(t *testing.T) {
	_, api := startDemo(t)
	b := openBrowser(t, api)
	first := pageLeader(b, "")
	b.until("five columns", `document.querySelectorAll("#beliefs thead .name").length === 5`)
	b.until("a chart with lines", `document.querySelectorAll("#charts .legend li").length > 4`)
	b.until("an election with its cause",
		`document.querySelector("#timeline").textContent.includes("votes of")`)
	b.accessible("at rest, light")
	wantTabOrder(t, b)

	b.press("Kill "+first, "\r")
	b.until("what was done", fmt.Sprintf(
		`document.querySelector("#done").textContent.startsWith("%s was killed")`, first))
	second := pageLeader(b, first)
	b.until("the election on the time line", fmt.Sprintf(
		`document.querySelector("#timeline").textContent.includes("%s elected after %s")`, second, first))
	b.until("the dead node in the ring", fmt.Sprintf(
		`/%s( .seed.)?: does not run/.test(document.querySelector("#ring").getAttribute("aria-label"))`,
		first))

	b.press("Restart "+first, "\r")
	b.until("all agree again", `document.querySelector("#accord").textContent ===
		"All 5 nodes that answer agree on who leads."`)
	b.press("Cut "+second, " ")
	third := pageCut(b, second)
	b.colours("dark")
	b.accessible("in a partition, dark")
	b.press("Heal "+second, "\r")
	b.until("no disagreement is left", pageMarks+` === ""`)
	if now := pageLeader(b, ""); now != third {
		t.Errorf("%s leads after the partition, want still %s", now, third)
	}
	b.clean()
}

// pageCut waits until the page shows that a leader which was cut off disagrees with
// all others, and returns whom they follow.
func pageCut(b *browser, cut string) (leader string) {
	b.t.Helper()
	b.until("a disagreement", pageVerdict+`.startsWith("The nodes disagree")`)
	b.until("marks in the column of "+cut+" alone", fmt.Sprintf(`%s === %q`, pageMarks, cut))
	b.until("another leader", fmt.Sprintf(
		`/: n\d leads with authority, and not all know/.test(%s)`, pageVerdict))
	words := strings.Fields(look[string](b, pageVerdict))
	leader = words[3]
	if leader == cut {
		b.t.Errorf("%q, want another leader than %s", strings.Join(words, " "), cut)
	}
	// Who hears the page is told in words, who sees no colours by a sign.
	cell := look[string](b, `document.querySelector("#beliefs td.differs").textContent`)
	if !strings.HasPrefix(cell, "≠ ") || !strings.HasSuffix(cell, " (differs)") {
		b.t.Errorf("a cell that differs says %q, want a sign and a word", cell)
	}
	return leader
}

// wantTabOrder goes once round the page by Tab: every control has its turn, in the
// order in which they are read.
func wantTabOrder(t *testing.T, b *browser) {
	t.Helper()
	want := look[[]string](b, `
		[...document.querySelectorAll("a[href], button, select, [tabindex='0']")]
		.map((e) => e.getAttribute("aria-label") ?? e.id)`)
	if len(want) < 25 || !slices.Contains(want, "Kill n1") || !slices.Contains(want, "theme") {
		t.Fatalf("controls of the page: %q, want the buttons of five nodes and more", want)
	}
	var got []string
	for range want {
		b.do(chromedp.KeyEvent("\t"))
		got = append(got, look[string](b, pageFocus))
	}
	if !slices.Equal(got, want) {
		t.Errorf("Tab goes to\n%q, want\n%q", got, want)
	}
}
