// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// browserPatience bounds all that a browser does in one test.
const browserPatience = 2 * time.Minute

// browser is a page in a real browser, and what it did wrong.
type browser struct {
	t    *testing.T
	ctx  context.Context
	site string // what it may ask

	mu     sync.Mutex
	faults []string
}

// openBrowser opens a page of a site. Without a browser the test is skipped.
func openBrowser(t *testing.T, site string) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Skip("chromium is not installed (make tools)")
	}
	home, err := os.MkdirTemp("", "athena-browser-") // it writes there until it is gone
	if err != nil {
		t.Fatal(err)
	}
	flags := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(home), chromedp.Env("HOME="+home),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true))
	ctx, stop := context.WithTimeout(context.Background(), browserPatience)
	allocator, end := chromedp.NewExecAllocator(ctx, flags...)
	tab, leave := chromedp.NewContext(allocator)
	b := &browser{t: t, ctx: tab, site: site}
	t.Cleanup(func() {
		_ = chromedp.Cancel(tab) // it is killed below where it does not close
		leave()
		end()
		stop()
		os.RemoveAll(home)
	})
	b.do(chromedp.EmulateViewport(1280, 900))
	if err := chromedp.Listen(tab, b.watch); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(tab, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	messages := chromedp.Console(tab)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			// An answer that is an error, of a node that is down or to a page without a
			// token, is no fault of the page; the browser tells of it by itself.
			if m.Source != "network" || !strings.Contains(m.URL, "/v1/") {
				b.fault("console: " + m.String())
			}
		}
	}()
	b.do(chromedp.Navigate(site + "/"))
	return b
}

// watch sees every request of the page before it is sent.
func (b *browser) watch(event any) {
	if e, ok := event.(*network.EventRequestWillBeSent); ok && e.Request != nil &&
		!strings.HasPrefix(e.Request.URL, b.site+"/") {
		b.fault("asks elsewhere: " + e.Request.URL)
	}
}

func (b *browser) fault(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, text)
}

// clean wants a page that has done nothing wrong.
func (b *browser) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		b.t.Error(f)
	}
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// look evaluates an expression in the page.
func look[T any](b *browser, js string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.200s: %v", js, err)
	}
	return value
}

// until waits for an expression of the page to hold.
func (b *browser) until(what, js string) {
	b.t.Helper()
	eventually(b.t, what, func() bool { return look[bool](b, "Boolean("+js+")") })
}

// says waits for an expression of the page to have a value.
func (b *browser) says(want, js string) {
	b.t.Helper()
	got := ""
	defer func() {
		if got != want {
			b.t.Logf("%.200s: %q, want %q", js, got, want)
		}
	}()
	eventually(b.t, want, func() bool {
		got = look[string](b, js)
		return got == want
	})
}

// colours makes the page light or dark, as the system of a reader would.
func (b *browser) colours(scheme string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// axeFault is a rule of accessibility that the page breaks.
type axeFault struct {
	ID, Help string
	Nodes    []struct{ HTML, FailureSummary string }
}

// accessible wants the page to break no rule that axe-core can check.
func (b *browser) accessible(how string) {
	b.t.Helper()
	if !look[bool](b, "'axe' in window") {
		source, err := os.ReadFile("testdata/axe/axe.min.js")
		if err != nil {
			b.t.Fatal(err)
		}
		look[any](b, string(source)+"; 0")
	}
	text := look[string](b, `axe.run({resultTypes: ["violations"]}).then((r) =>
		JSON.stringify({passes: r.passes.length, violations: r.violations}))`)
	var found struct {
		Passes     int
		Violations []axeFault
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		b.t.Fatal(err)
	}
	if found.Passes < 20 {
		b.t.Errorf("%s: axe passed %d rules, want more than 20: it saw no page", how, found.Passes)
	}
	for _, v := range found.Violations {
		b.t.Errorf("%s: axe: %s: %s", how, v.ID, v.Help)
		for _, n := range v.Nodes {
			b.t.Logf("    %s\n    %s", n.HTML, n.FailureSummary)
		}
	}
}
