// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// These JavaScript expressions read the texts of the page.
const (
	pageVerdict = `document.querySelector("#verdict .words").textContent`
	pageFocus   = `(document.activeElement.getAttribute("aria-label") ?? document.activeElement.id)`
	pageAccord  = `document.querySelector("#accord").textContent`
	// pageNotes are the notes below the name of each node.
	pageNotes = `[...document.querySelectorAll("#beliefs thead .note")]
		.map((e) => e.textContent).join()`
	// pageMarks are the names of the nodes whose columns contain a mark.
	pageMarks = `[...new Set([...document.querySelectorAll("#beliefs td.differs")].map((td) =>
		document.querySelectorAll("#beliefs thead .name")[td.cellIndex - 1].textContent))].join()`
)

// pageLeader waits until the page names a leader other than the given one, and returns the new
// leader.
func pageLeader(b *browser, but string) (leader string) {
	b.t.Helper()
	eventually(b.t, "the page names a leader other than "+but, func() bool {
		words := strings.Fields(evaluate[string](b, pageVerdict))
		ok := len(words) > 2 && strings.Join(words[1:], " ") == "leads with authority" && words[0] != but
		if ok {
			leader = words[0]
		}
		return ok
	})
	return leader
}

// press presses Tab until a control has the focus, and then presses key.
func (b *browser) press(control, key string) {
	b.t.Helper()
	for range 60 {
		if evaluate[string](b, pageFocus) == control {
			b.typeKeys(key)
			return
		}
		b.typeKeys("\t")
	}
	b.t.Fatalf("Tab never reaches %q", control)
}

// TestDashboard watches a demo in a real browser and injects faults from there, with the keyboard
// alone. It runs before the parallel tests: if it has to wait for them, the page changes between
// two presses of Tab.
func TestDashboard(t *testing.T) {
	_, api := startDemo(t)
	b := openBrowser(t, api)
	first := pageLeader(b, "")
	b.waitUntil("five columns", `document.querySelectorAll("#beliefs thead .name").length === 5`)
	b.waitUntil("a chart with lines", `document.querySelectorAll("#charts .legend li").length > 4`)
	b.waitUntil("an election with its cause",
		`document.querySelector("#timeline").textContent.includes("votes of")`)
	b.waitUntil("a leader of each job of the demo",
		`document.querySelectorAll("[aria-label^='Disable ']").length === 3`)
	b.accessible("at rest, light")
	wantTabOrder(t, b)

	b.press("Kill "+first, "\r")
	b.waitUntil("what was done", fmt.Sprintf(
		`document.querySelector("#done").textContent.startsWith("%s was killed")`, first))
	second := pageLeader(b, first)
	b.waitUntil("the election on the time line", fmt.Sprintf(
		`document.querySelector("#timeline").textContent.includes("%s elected after %s")`, second, first))
	b.waitUntil("the dead node in the ring", fmt.Sprintf(
		`/%s( .seed.)?: not running/.test(document.querySelector("#ring").getAttribute("aria-label"))`,
		first))

	b.press("Restart "+first, "\r")
	b.waitForValue("All 5 nodes that respond agree on the leader.", pageAccord)
	b.press("Cut "+second, " ")
	third := pageCut(b, second)
	b.colours("dark")
	b.accessible("in a partition, dark")
	b.press("Heal "+second, "\r")
	b.waitForValue("", pageMarks)
	if now := pageLeader(b, ""); now != third {
		t.Errorf("%s leads after the partition, want %s to keep leading", now, third)
	}
	b.clean()
}

var adminOfLog = regexp.MustCompile(`admin=(127\.0\.0\.1:\d+)`)

// TestDashboardsInTheBackground checks that hidden pages hold no connections. A browser opens at
// most six connections to a server, and each open page would occupy one with its stream of events.
func TestDashboardsInTheBackground(t *testing.T) {
	t.Parallel()
	_, api := startDemo(t)
	b := openBrowser(t, api)
	b.waitForValue("live", "document.getElementById('link').textContent")
	evaluate[int](b, `(globalThis.others = [1, 2, 3, 4, 5].map(() => fetch("v1/events"))).length`)
	b.waitForValue("not live", "document.getElementById('link').textContent")
	evaluate[bool](b, `(Object.defineProperty(document, "hidden", { get: () => true }),
		document.dispatchEvent(new Event("visibilitychange")))`)
	b.waitForValue("live", "document.getElementById('link').textContent")
}

// TestDashboardOfRun opens the page of one node of a real cluster, with the node's token. The page
// also shows the other nodes, which this node queries. It cannot inject faults.
func TestDashboardOfRun(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	token := c.secret("token", "0123456789-the-token")
	one := c.start(1, "--admin", "127.0.0.1:0", "--admin-token-file", token)
	c.start(2)
	three := c.start(3)
	eventually(t, "three active members", func() bool {
		s, ok := c.status(2)
		return ok && s.Token > 0 && s.Active() == 3
	})
	b := openBrowser(t, "http://"+adminOfLog.FindStringSubmatch(one.stderr.String())[1])
	b.waitUntil("the page wants the token",
		`document.activeElement === document.querySelector("#token input")`)
	b.waitForValue("The server needs a token", pageVerdict)
	b.accessible("without the token")
	b.typeKeys("wrong\r")
	b.waitForValue("Wrong token.", `document.querySelector("#token [role=status]").textContent`)
	b.typeKeys("\u201cquoted\u201d\r") // cannot be sent in a header
	b.typeKeys("0123456789-the-token\r")
	pageLeader(b, "")
	b.waitForValue("this node,responds,responds", pageNotes)
	if evaluate[bool](b, `document.querySelector(".faults").checkVisibility()`) {
		t.Error("the page has buttons for faults, want none outside of a demo")
	}
	three.signal(syscall.SIGKILL)
	b.waitForValue("this node,responds,unreachable", pageNotes)
	b.waitForValue("All 2 nodes that respond agree on the leader. n3 does not respond.", pageAccord)
	b.clean()
}

// pageCut waits until the page shows that an isolated leader disagrees with all others, and
// returns the leader that they follow.
func pageCut(b *browser, cut string) (leader string) {
	b.t.Helper()
	b.waitUntil("a disagreement", pageVerdict+`.startsWith("The nodes disagree")`)
	b.waitForValue(cut, pageMarks)
	eventually(b.t, "the others have a leader", func() bool {
		verdict := evaluate[string](b, pageVerdict)
		rest, ok := strings.CutPrefix(verdict, "The nodes disagree: ")
		leader, _, _ = strings.Cut(rest, " ")
		return ok && leader != cut &&
			strings.HasSuffix(rest, " leads with authority, but not in all views")
	})
	// A screen reader gets a word, and a reader who cannot see colours gets a sign.
	cell := evaluate[string](b, `document.querySelector("#beliefs td.differs").textContent`)
	if !strings.HasPrefix(cell, "≠ ") || !strings.HasSuffix(cell, " (differs)") {
		b.t.Errorf("a differing cell reads %q, want a sign and a word", cell)
	}
	return leader
}

// pageControls are the controls of the page in reading order.
const pageControls = `[...document.querySelectorAll(
	"a[href], button, select, input, [tabindex='0']")].filter((e) => e.checkVisibility())`

// wantTabOrder presses Tab through the whole page and checks that every control gets the focus, in
// reading order. If the page changes meanwhile, it begins again with the first control.
func wantTabOrder(t *testing.T, b *browser) {
	t.Helper()
	var want, got []string
	defer func() {
		if !slices.Equal(got, want) {
			t.Logf("Tab order\n%q, want\n%q", got, want)
		}
	}()
	eventually(t, "every control in reading order", func() bool {
		again := got != nil
		want = evaluate[[]string](b, pageControls+`.map((e) => e.getAttribute("aria-label") ?? e.id)`)
		if len(want) < 25 || !slices.Contains(want, "Kill n1") || !slices.Contains(want, "theme") {
			t.Fatalf("controls of the page: %q, want the buttons of five nodes and more", want)
		}
		got = nil
		for range want {
			if again && got == nil {
				evaluate[int](b, `(`+pageControls+`[0].focus(), 0)`)
			} else {
				b.typeKeys("\t")
			}
			got = append(got, evaluate[string](b, pageFocus))
		}
		return slices.Equal(got, want)
	})
}
