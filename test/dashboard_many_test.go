// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"
)

// TestDashboardOfMany checks the pages of small and large clusters, on a phone and on a desktop,
// light and dark. Everything must be readable, and one node that disagrees must be visible among
// fifty. With -short, a phone is dark, a desktop is light, and addresses without names are skipped.
func TestDashboardOfMany(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size int
		demo bool
		name func(i int) string
	}{
		{25, true, func(i int) string { return fmt.Sprint("n", i+1) }},
		{50, false, func(i int) string { return fmt.Sprintf("10.0.0.%d:7000", i+1) }},
		{50, false, func(i int) string { return fmt.Sprintf("athena-%d.athena.default.svc:7000", i) }},
		{6, false, func(i int) string { return fmt.Sprintf("athena-%d.athena.default.svc:7000", i) }},
	} {
		p := &pretender{size: c.size, name: c.name, demo: c.demo}
		if testing.Short() && c.size != 25 && c.name(1) != "athena-1.athena.default.svc:7000" {
			continue // the widest names need the most room
		}
		b := openBrowser(t, p.serve(t))
		b.waitUntil("a view of every node",
			`!document.querySelector("#beliefs").textContent.includes("loading")`)
		b.waitUntil("a node that differs", `document.querySelectorAll("#beliefs td.differs").length > 2`)
		b.waitUntil("a chart with lines", `document.querySelectorAll("#charts .legend li").length > 4`)
		for _, width := range []int{360, 1280} {
			b.resize(width)
			b.waitUntil("a ring of that width", `document.querySelector("#ring").width.baseVal.value ===
				Math.min(460, document.querySelector("section.ring").clientWidth)`)
			for _, scheme := range []string{"light", "dark"} {
				if testing.Short() && (width == 360) != (scheme == "dark") {
					continue
				}
				b.colours(scheme)
				how := fmt.Sprintf("%d nodes such as %s, %d px wide, %s", c.size, c.name(1), width, scheme)
				b.checkLayout(how)
				if c.size == 50 && (width == 360) == (scheme == "dark") {
					b.accessible(how)
				}
			}
		}
		b.clean()
		b.close()
	}
}

// heap returns the size of the page's heap after garbage collection, in bytes.
func (b *browser) heap() (bytes float64) {
	b.t.Helper()
	b.command(&bytes, "heap", "", 0)
	return bytes
}

// heapSlack is the permitted growth of a page's heap over a long time.
const heapSlack = 2 << 20

// TestDashboardOfManyEvents checks that during an endless stream of events the page still polls the
// nodes, does not poll continuously, and uses no more memory.
func TestDashboardOfManyEvents(t *testing.T) {
	t.Parallel()
	events := 200_000
	if testing.Short() {
		events /= 5
	}
	type storm struct {
		looks int64
		took  time.Duration
	}
	begin, over, last := make(chan bool), make(chan storm, 1), make(chan string, 1)
	p := &pretender{size: 9, name: func(i int) string { return fmt.Sprint("n", i+1) }}
	p.events = func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		if id := r.URL.Query().Get("last_event_id"); id != "" {
			last <- id
			<-r.Context().Done()
			return
		}
		<-begin
		looks, began, pause := p.looks.Load(), time.Now(), time.NewTicker(5*time.Millisecond)
		defer pause.Stop()
		for i := range events {
			fmt.Fprintf(w, "event: member\nid: %d\ndata: {\"type\":\"member\",\"id\":\"%[1]d\"}\n\n", i+1)
			if i%100 == 0 {
				_ = http.NewResponseController(w).Flush()
				<-pause.C
			}
		}
		over <- storm{p.looks.Load() - looks, time.Since(began)}
	}
	b := openBrowser(t, p.serve(t))
	b.waitUntil("a node that differs", `document.querySelectorAll("#beliefs td.differs").length > 2`)
	before := b.heap()
	begin <- true
	s := <-over
	if got, want := <-last, fmt.Sprint(events); got != want {
		t.Errorf("the page has read the events up to %s, want %s", got, want)
	}
	after := b.heap()
	t.Logf("%d events within %v, %d polls of the nodes; the heap had %.2f MB before, %.2f after",
		events, s.took, s.looks, before/1e6, after/1e6)
	// A machine with much other work polls less often.
	if most := int64(6*s.took.Seconds()) + 2; s.looks < 1 || s.looks > most {
		t.Errorf("%d polls of the nodes within %v, want 1 to %d", s.looks, s.took, most)
	}
	if after-before > heapSlack {
		t.Errorf("the heap grew by %.2f MB", (after-before)/1e6)
	}
	b.clean()
}

// TestDashboardForADay simulates 25,000 elections, more than a page sees in a day, with a poll
// every 30 ms. After the first fifth of them the panels must not grow.
func TestDashboardForADay(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("testdata/page/day.js")
	if err != nil {
		t.Fatal(err)
	}
	p := &pretender{size: 9, name: func(i int) string { return fmt.Sprint("n", i+1) }}
	b := openBrowser(t, p.serve(t))
	evaluate[bool](b, string(script))
	type held struct{ Entries, Terms, Points, Elements int }
	first := evaluate[held](b, "pass(5_000)")
	before := b.heap()
	second := evaluate[held](b, "pass(20_000)")
	after := b.heap()
	t.Logf("%+v and %.2f MB after 5,000 elections, %+v and %.2f MB after 25,000",
		first, before/1e6, second, after/1e6)
	if second.Entries > 200 || second.Terms > 301 || second.Points > 302 ||
		second.Elements > first.Elements*11/10 {
		t.Errorf("the panels hold %+v after a fifth and %+v at the end, want no growth", first, second)
	}
	if after-before > heapSlack {
		t.Errorf("the heap grew by %.2f MB", (after-before)/1e6)
	}
}
