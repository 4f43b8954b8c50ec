// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// browserProgram builds the program of test/browser once for all tests.
var browserProgram = sync.OnceValues(func() (string, error) {
	athena, err := program() // TestMain removes its folder
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(athena), "browser")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Dir = "browser"
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./test/browser: %w\n%s", err, out)
	}
	return path, nil
})

// browsers holds a value for each running browser, and one browser can use all cores.
var browsers = make(chan struct{}, max(1, runtime.NumCPU()/2))

// browser is a page in a real browser, controlled by the program of test/browser.
type browser struct {
	t       *testing.T
	send    *json.Encoder
	answers *bufio.Reader
	close   func() // called again, it does nothing
}

// openBrowser opens a page of a site. It skips the test if there is no browser.
func openBrowser(t *testing.T, site string) *browser {
	t.Helper()
	chromium := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && chromium == "" {
			chromium = found
		}
	}
	if chromium == "" {
		t.Skip("chromium is not installed (make tools)")
	}
	path, err := browserProgram()
	if err != nil {
		t.Fatal(err)
	}
	browsers <- struct{}{}
	cmd := exec.Command(path, chromium, site)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		<-browsers
		t.Fatal(err)
	}
	b := &browser{t: t, send: json.NewEncoder(in), answers: bufio.NewReader(out)}
	b.close = sync.OnceFunc(func() {
		in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // a failed page has already failed the test
		<-browsers
	})
	t.Cleanup(b.close)
	b.receive(nil)
	return b
}

// command sends a command to the browser and stores the result in value, unless value is nil.
func (b *browser) command(value any, do, text string, width int) {
	b.t.Helper()
	err := b.send.Encode(struct {
		Do, Text string
		Width    int
	}{do, text, width})
	if err != nil {
		b.t.Fatalf("%s %.200s: %v", do, text, err)
	}
	b.receive(value)
}

func (b *browser) receive(value any) {
	b.t.Helper()
	line, err := b.answers.ReadBytes('\n')
	if err != nil {
		b.t.Fatalf("the browser exited: %v", err)
	}
	var answer struct {
		Value json.RawMessage
		Error string
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		b.t.Fatal(err)
	}
	if answer.Error != "" {
		b.t.Fatal(answer.Error)
	}
	if value == nil || answer.Value == nil {
		return
	}
	if err := json.Unmarshal(answer.Value, value); err != nil {
		b.t.Fatalf("%.200s: %v", answer.Value, err)
	}
}

// typeKeys sends key presses to the page.
func (b *browser) typeKeys(keys string) {
	b.t.Helper()
	b.command(nil, "keys", keys, 0)
}

// resize changes the width of the page, in pixels.
func (b *browser) resize(width int) {
	b.t.Helper()
	b.command(nil, "viewport", "", width)
}

// checkLayout checks that everything on the page can be read. The layout follows a change of the
// width or of the data.
func (b *browser) checkLayout(how string) {
	b.t.Helper()
	script, err := os.ReadFile("testdata/page/layout.js")
	if err != nil {
		b.t.Fatal(err)
	}
	var faults []string
	defer func() {
		for _, fault := range faults {
			b.t.Errorf("%s: %s", how, fault)
		}
	}()
	eventually(b.t, how+": a page that can be read", func() bool {
		faults = evaluate[[]string](b, string(script))
		return len(faults) == 0
	})
}

// clean checks that the page reported no errors.
func (b *browser) clean() {
	b.t.Helper()
	var faults []string
	b.command(&faults, "faults", "", 0)
	for _, f := range faults {
		b.t.Error(f)
	}
}

// evaluate evaluates an expression in the page.
func evaluate[T any](b *browser, js string) (value T) {
	b.t.Helper()
	b.command(&value, "evaluate", js, 0)
	return value
}

// waitUntil waits until an expression of the page is true.
func (b *browser) waitUntil(what, js string) {
	b.t.Helper()
	eventually(b.t, what, func() bool { return evaluate[bool](b, "Boolean("+js+")") })
}

// waitForValue waits until an expression of the page has the given value.
func (b *browser) waitForValue(want, js string) {
	b.t.Helper()
	got := ""
	defer func() {
		if got != want {
			b.t.Logf("%.200s: %q, want %q", js, got, want)
		}
	}()
	eventually(b.t, want, func() bool {
		got = evaluate[string](b, js)
		return got == want
	})
}

// colours makes the page light or dark, like the system setting of a reader.
func (b *browser) colours(scheme string) {
	b.t.Helper()
	b.command(nil, "colors", scheme, 0)
}

// axeFault is a violation of an accessibility rule.
type axeFault struct {
	ID, Help string
	Nodes    []struct{ HTML, FailureSummary string }
}

// accessible checks the page against every rule that axe-core can check.
func (b *browser) accessible(how string) {
	b.t.Helper()
	if !evaluate[bool](b, "'axe' in window") {
		source, err := os.ReadFile("testdata/axe/axe.min.js")
		if err != nil {
			b.t.Fatal(err)
		}
		evaluate[any](b, string(source)+"; 0")
	}
	text := evaluate[string](b, `axe.run({resultTypes: ["violations"]}).then((r) =>
		JSON.stringify({passes: r.passes.length, violations: r.violations}))`)
	var found struct {
		Passes     int
		Violations []axeFault
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		b.t.Fatal(err)
	}
	if found.Passes < 20 {
		b.t.Errorf("%s: axe passed %d rules, want more than 20", how, found.Passes)
	}
	for _, v := range found.Violations {
		b.t.Errorf("%s: axe: %s: %s", how, v.ID, v.Help)
		for _, n := range v.Nodes {
			b.t.Logf("    %s\n    %s", n.HTML, n.FailureSummary)
		}
	}
}
