// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// hang stops the node and its application like one process that SIGSTOP stops: the kernel still
// accepts connections, and no request is answered.
func (n *proxyNode) hang() {
	n.mu.Lock()
	n.resumed = make(chan struct{})
	n.mu.Unlock()
	n.daemon.signal(syscall.SIGSTOP)
}

// resume continues the node and its application.
func (n *proxyNode) resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.daemon.signal(syscall.SIGCONT)
	if n.resumed != nil {
		close(n.resumed)
		n.resumed = nil
	}
}

// awaitResume waits until the application is not stopped, and returns whether it was.
func (n *proxyNode) awaitResume() (hung bool) {
	n.mu.Lock()
	resumed := n.resumed
	n.mu.Unlock()
	if resumed == nil {
		return false
	}
	<-resumed
	return true
}

// hangTest is a leader that hangs while clients send requests.
type hangTest struct {
	began, elected time.Time // when the leader stopped, and when the next one was elected
	first, next    *proxyNode
	answers        []answer
}

// hangLeader stops the leader and sends a GET, a POST and a PUT every 50 ms until a time after the
// election of the next leader. It returns when each has an answer, and continues the stopped one.
func (p *proxied) hangLeader(after time.Duration) *hangTest {
	p.t.Helper()
	h := &hangTest{first: p.awaitLeader()}
	p.servedBy(h.first, patience)
	const done = "POSTdone"
	var mu sync.Mutex
	var requests, sender sync.WaitGroup
	stop := make(chan struct{})
	send := func(method string, i int) {
		a := p.request(method, p.leader, fmt.Sprint(method, "hang", i))
		mu.Lock()
		defer mu.Unlock()
		h.answers = append(h.answers, a)
	}
	// This write is done at one node, which then hangs: it may not be repeated at another one.
	requests.Go(func() { p.request(http.MethodPost, p.leader+"/hang", done) })
	eventually(p.t, "the write was done", func() bool { return p.timesDone()[done] > 0 })
	h.first.hang()
	h.began = time.Now()
	sender.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
				requests.Go(func() { send(method, i) })
			}
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	})
	h.next = p.awaitLeader(h.first)
	h.elected = time.Now()
	time.Sleep(after) // while the requests continue
	close(stop)
	sender.Wait()
	requests.Wait()
	h.first.resume()
	p.servedBy(h.next, patience)
	p.checkWrites()
	for _, a := range h.answers {
		if a.ok() && a.name != h.next.name && a.began.After(h.began) {
			p.t.Errorf("%s was served by %s, which hung", a.method, a.name)
		}
	}
	return h
}

// count logs how the requests of a method ended, and returns the longest time that one took and how
// many failed of those that were sent after a time.
func (h *hangTest) count(t *testing.T, method string, settled time.Time) (
	longest time.Duration, failed int,
) {
	t.Helper()
	var all []answer
	for _, a := range h.answers {
		if a.method == method {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b answer) int { return a.began.Compare(b.began) })
	var served time.Duration // until the first request was served that the next leader got
	late, slow, statuses := 0, 0, map[int]int{}
	var last time.Time
	for _, a := range all {
		longest = max(longest, a.took())
		statuses[a.status]++
		if a.ok() && served == 0 {
			served = a.ended.Sub(h.elected)
		}
		if !a.ok() || a.took() > time.Second {
			last = a.began
		}
		if a.began.After(settled) {
			late++
			if !a.ok() {
				failed++
			}
			if a.took() > time.Second {
				slow++
			}
		}
	}
	t.Logf("%s: %d answers by status %v; longest %v; the first one served %v after the election, "+
		"the last one that failed or took over 1 s sent %v after it; of %d later ones %d failed, "+
		"%d took over 1 s", method, len(all), statuses, longest.Round(time.Millisecond),
		served.Round(time.Millisecond), last.Sub(h.elected).Round(time.Millisecond), late, failed, slow)
	if late == 0 {
		t.Errorf("no %s was sent after the proxy should have found the leader", method)
	}
	return longest, failed
}
