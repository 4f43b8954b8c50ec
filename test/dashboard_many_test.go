// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestDashboardOfMany looks at the pages of small and large clusters as a phone and a
// desk show them, light and dark: everything can be read, and a node that is alone with
// what it believes is seen among fifty.
func TestDashboardOfMany(t *testing.T) {
	script, err := os.ReadFile("testdata/page/layout.js")
	if err != nil {
		t.Fatal(err)
	}
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
		b := openBrowser(t, p.serve(t))
		b.until("a view of every node",
			`!document.querySelector("#beliefs").textContent.includes("not asked yet")`)
		b.until("a node that differs", `document.querySelectorAll("#beliefs td.differs").length > 2`)
		b.until("a chart with lines", `document.querySelectorAll("#charts .legend li").length > 4`)
		for _, width := range []int64{360, 1280} {
			b.do(chromedp.EmulateViewport(width, 900))
			b.until("a ring of that width", `document.querySelector("#ring").width.baseVal.value ===
				Math.min(460, document.querySelector("section.ring").clientWidth)`)
			for _, scheme := range []string{"light", "dark"} {
				b.colours(scheme)
				how := fmt.Sprintf("%d nodes such as %s, %d px wide, %s", c.size, c.name(1), width, scheme)
				for _, fault := range look[[]string](b, string(script)) {
					t.Errorf("%s: %s", how, fault)
				}
				if c.size == 50 && (width == 360) == (scheme == "dark") {
					b.accessible(how)
				}
			}
		}
		b.clean()
	}
}
