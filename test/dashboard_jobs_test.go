// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These JavaScript expressions read the texts about jobs on the page.
const (
	pageJobs = `[...document.querySelectorAll("#jobs table:first-of-type tbody tr")].map((tr) =>
		[...tr.cells].map((c) => c.textContent.trim()).join("|")).join("\n")`
	pageCounted  = `document.querySelector("#counted").textContent`
	pageSwitched = `document.querySelector("#switched").textContent`
)

// TestDashboardOfManyJobs checks that one of a thousand jobs can be found and changed with the
// keyboard alone, on a phone and on a desktop, light and dark. With -short, a phone is dark and a
// desktop is light.
func TestDashboardOfManyJobs(t *testing.T) {
	t.Parallel()
	p := &pretender{size: 9, jobs: 1000, write: true, acts: make(chan string, 4),
		name: func(i int) string { return fmt.Sprintf("athena-%d.athena.default.svc:7000", i) }}
	b := openBrowser(t, p.serve(t))
	b.waitForValue("1,000 jobs, 857 with a leader, 3,500 locks and 1,000 other records; "+
		"showing the first 20.", pageCounted)
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
			how := fmt.Sprintf("%d px wide, %s", width, scheme)
			b.checkLayout(how)
			b.accessible(how)
		}
	}
	if rows := evaluate[int](b, `document.querySelectorAll("#jobs tbody tr").length`); rows != 40 {
		t.Errorf("%d rows, want 20 jobs and 20 records", rows)
	}
	b.press("filter jobs and records", "Billing-0722")
	b.waitForValue("1 job, 1 with a leader, 2 locks and 0 other records.", pageCounted)
	b.waitForValue("billing-0722|★ athena-2.athena.default.svc:7000 Disable|1000000000002|"+
		"– athena-3.athena.default.svc:7000 Enable– athena-4.athena.default.svc:7000 Enable|"+
		"latch 0 (athena-2.athena.default.svc:7000, 1000000000002) and "+
		"latch 1 (athena-3.athena.default.svc:7000, 1000000000003)", pageJobs)
	b.press("Disable athena-2.athena.default.svc:7000 for billing-0722", " ")
	b.waitForValue("athena-2.athena.default.svc:7000 cannot lead billing-0722 until it is enabled.",
		pageSwitched)
	b.press("Enable athena-4.athena.default.svc:7000 for billing-0722", "\r")
	b.waitForValue("athena-4.athena.default.svc:7000 may lead billing-0722 again.", pageSwitched)
	for _, want := range []string{
		`disable billing-0722 application/json {"member":"10.0.0.3:7000"}`,
		`enable billing-0722 application/json {"member":"10.0.0.5:7000"}`,
	} {
		if got := <-p.acts; got != want {
			t.Errorf("the page did %q, want %q", got, want)
		}
	}
	b.press("filter jobs and records", "nonsense")
	b.waitForValue("No job or record matches the filter.", pageCounted)
	b.clean()
}

// TestDashboardOfGreatNumbers checks that the page shows all digits of numbers that JavaScript
// would round.
func TestDashboardOfGreatNumbers(t *testing.T) {
	t.Parallel()
	p := &pretender{size: 3, version: 1<<53 + 1,
		name: func(i int) string { return fmt.Sprint("n", i) }}
	b := openBrowser(t, p.serve(t))
	for _, want := range []string{"9007199254740993.7", "9007199254740993.0"} {
		b.waitUntil(want, fmt.Sprintf(`[...document.querySelectorAll("#beliefs td")]
			.some((td) => td.textContent === %q)`, want))
	}
	b.clean()
}

// TestDashboardOfJobs checks that the page shows and changes the leader of a job of a real cluster.
func TestDashboardOfJobs(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	writes := c.start(1, "--admin", "127.0.0.1:0", "--admin-write")
	reads := c.start(2, "--admin", "127.0.0.1:0")
	c.start(3, "--admin-write")
	site := func(p *process) string {
		var at []string
		eventually(t, "an admin API", func() bool {
			at = adminOfLog.FindStringSubmatch(p.stderr.String())
			return at != nil
		})
		return at[1]
	}
	eventually(t, "three active members", func() bool {
		s, ok := c.status(3)
		return ok && s.Token > 0 && s.Active() == 3
	})
	b := openBrowser(t, "http://"+site(writes))
	b.waitForValue("No jobs, locks or records.", pageCounted)
	elected := c.verb(3, "elect", "billing")
	b.waitUntil("the leader of a job", pageJobs+`.startsWith("billing|★ n3 Disable|")`)
	second := start(t, "elect", "billing", "--admin", site(writes))
	b.press("Disable n3 for billing", "\r")
	b.waitForValue("n3 cannot lead billing until it is enabled.", pageSwitched)
	b.waitUntil("the next leader", pageJobs+`.startsWith("billing|★ n1 Disable|")`)
	b.waitUntil("who may not lead", pageJobs+`.endsWith("|– n3 Enable|")`)
	// On a busy machine, the node may have lost the job before it was disabled.
	if text := elected.stdout.String(); !strings.Contains(text, "lost    the member was disabled") &&
		!strings.Contains(text, "not confirmed in time") {
		t.Errorf("athena elect prints\n%s\nwant the reason why it no longer leads", text)
	}
	second.signal(syscall.SIGINT)
	b.waitUntil("nobody leads", pageJobs+`.startsWith("billing|none|")`)
	if code, _, text := run(t, "jobs", "disable", "billing", "--host", "10.0.0.9",
		"--admin", site(writes)); code != 0 {
		t.Fatal(text)
	}
	b.waitUntil("the host that may not lead", pageJobs+`.includes("– host 10.0.0.9 Enable")`)
	b.press("Enable host 10.0.0.9 for billing", "\r")
	b.waitForValue("host 10.0.0.9 may lead billing again.", pageSwitched)
	b.waitUntil("the member alone", pageJobs+`.endsWith("|– n3 Enable|")`)
	b.clean()
	b.close()
	b = openBrowser(t, "http://"+site(reads))
	b.waitUntil("what may not be changed here", pageJobs+`.endsWith("|– n3|")`)
	b.clean()
}

// TestDashboardWithoutQuorum checks that the page marks outdated information: the leader of a job,
// and the connected nodes.
func TestDashboardWithoutQuorum(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	one := c.start(1, "--admin", "127.0.0.1:0", "--admin-write")
	others := []*process{c.start(2), c.start(3, "--admin-write")}
	eventually(t, "three active members", func() bool {
		s, ok := c.status(3)
		return ok && s.Token > 0 && s.Active() == 3
	})
	b := openBrowser(t, "http://"+adminOfLog.FindStringSubmatch(one.stderr.String())[1])
	c.verb(3, "elect", "billing")
	b.waitUntil("the leader of a job", pageJobs+`.startsWith("billing|★ n3 Disable|")`)
	const lines = `[...document.querySelectorAll("#ring .links line")]
		.map((l) => l.getAttribute("class"))`
	b.waitUntil("connections", lines+`.some((c) => c === "both")`)
	for _, p := range others {
		p.signal(syscall.SIGSTOP) // the hosts of the other nodes still accept packets
	}
	began := time.Now()
	b.waitUntil("an unknown leader",
		pageJobs+`.startsWith("billing|unknown (no quorum), last n3|")`)
	b.waitUntil("the same in words", pageCounted+
		`.startsWith("1 job, leaders unknown (no quorum) since ")`)
	b.waitUntil("unknown connections", lines+`.every((c) => c === "unknown")`)
	t.Logf("everything is unknown after %v", time.Since(began).Round(time.Millisecond))
	b.clean()
}
