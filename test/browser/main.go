// SPDX-License-Identifier: Apache-2.0

// Command browser controls a real browser for the tests of the dashboard. It is a separate module
// so that users of the library do not download its dependencies.
//
// It opens the page of the site given as its argument. It reads one command from each line of its
// input, and answers each with a line of output. Only package test uses it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// timeout bounds everything that a browser does in one test.
const timeout = 10 * time.Minute

// maxLineBytes bounds the length of a command. The longest command loads the accessibility rules.
const maxLineBytes = 16 << 20

// command is a line of the input.
type command struct {
	Do    string // evaluate, keys, viewport, colors, heap or faults
	Text  string
	Width int64
}

// answer is a line of the output.
type answer struct {
	Value any    `json:",omitempty"`
	Error string `json:",omitempty"`
}

// page is a page in a browser, with the faults that it had.
type page struct {
	ctx  context.Context
	site string // the only address to which the page may send requests

	mu     sync.Mutex
	faults []string
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: browser PATH-OF-CHROMIUM SITE")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := serve(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "browser: %v\n", err)
		os.Exit(1)
	}
}

// serve opens the page and runs commands until the input ends.
func serve(ctx context.Context, path, site string) error {
	home, err := os.MkdirTemp("", "athena-browser-") // Chromium writes to it until it exits
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	flags := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(home), chromedp.Env("HOME="+home),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true))
	allocator, end := chromedp.NewExecAllocator(ctx, flags...)
	defer end()
	tab, leave := chromedp.NewContext(allocator)
	defer leave()
	defer func() { _ = chromedp.Cancel(tab) }() // if it does not close, end kills the browser
	p := &page{ctx: tab, site: site}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(answerTo(nil, p.open())); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, maxLineBytes)
	for lines.Scan() {
		var c command
		err := json.Unmarshal(lines.Bytes(), &c)
		var value any
		if err == nil {
			value, err = p.run(c)
		}
		if err := out.Encode(answerTo(value, err)); err != nil {
			return err
		}
	}
	return lines.Err()
}

func answerTo(value any, err error) answer {
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Value: value}
}

// open loads the page and starts to collect its faults.
func (p *page) open() error {
	if err := chromedp.Do(p.ctx, chromedp.EmulateViewport(1280, 900)); err != nil {
		return err
	}
	if err := chromedp.Listen(p.ctx, p.watchRequest); err != nil {
		return err
	}
	if _, err := chromedp.Call(p.ctx, network.Enable, network.EnableParams{}); err != nil {
		return err
	}
	messages := chromedp.Console(p.ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			// The browser reports each error response. Error responses of the API are expected, since a node
			// may be down or the page may have no token.
			if m.Source != "network" || !strings.Contains(m.URL, "/v1/") {
				p.addFault("console: " + m.String())
			}
		}
	}()
	return chromedp.Do(p.ctx, chromedp.Navigate(p.site+"/"))
}

// watchRequest checks every request of the page before it is sent.
func (p *page) watchRequest(event any) {
	if e, ok := event.(*network.EventRequestWillBeSent); ok && e.Request != nil &&
		!strings.HasPrefix(e.Request.URL, p.site+"/") {
		p.addFault("the page requested another site: " + e.Request.URL)
	}
}

func (p *page) addFault(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, text)
}

func (p *page) listFaults() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.faults...)
}

// run runs a command.
func (p *page) run(c command) (any, error) {
	switch c.Do {
	case "evaluate":
		return chromedp.Run(p.ctx, chromedp.Evaluate[any](c.Text, chromedp.EvalAwaitPromise))
	case "keys":
		return nil, chromedp.Do(p.ctx, chromedp.KeyEvent(c.Text))
	case "viewport":
		return nil, chromedp.Do(p.ctx, chromedp.EmulateViewport(c.Width, 900))
	case "colors":
		_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: c.Text}},
		})
		return nil, err
	case "heap":
		return p.measureHeap()
	case "faults":
		return p.listFaults(), nil
	default:
		return nil, fmt.Errorf("unknown command %q", c.Do)
	}
}

// measureHeap returns the size of the heap after a garbage collection, in bytes.
func (p *page) measureHeap() (float64, error) {
	if _, err := chromedp.Call(p.ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
		return 0, err
	}
	usage, err := chromedp.Call(p.ctx, runtime.GetHeapUsage, cdp.Empty{})
	if err != nil {
		return 0, err
	}
	return usage.UsedSize, nil
}
