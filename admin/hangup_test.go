// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
)

// commitTime is the duration of a commit in a slowStore. Half of it is before the commit, half
// after.
const commitTime = 40 * time.Millisecond

// slowStore delays commits. A caller that does not wait gets ErrUnknownOutcome. As a Store must, it
// keeps the order of requests.
type slowStore struct {
	record.Store
	mu   sync.Mutex
	last chan struct{} // closed once the store has received the last request
}

func newSlowStore(s record.Store) record.Store {
	none := make(chan struct{})
	close(none)
	return &slowStore{Store: s, last: none}
}

func (s *slowStore) Session(lost record.LostFunc) record.Session {
	return slowSession{s.Store.Session(lost), s}
}

type slowSession struct {
	record.Session
	store *slowStore
}

func (s slowSession) Commit(ctx context.Context, ops ...record.Op) (member.Token, error) {
	type outcome struct {
		token member.Token
		err   error
	}
	done, taken := make(chan outcome, 1), make(chan struct{})
	s.store.mu.Lock()
	before := s.store.last
	s.store.last = taken
	s.store.mu.Unlock()
	go func() {
		time.Sleep(commitTime / 2)
		<-before
		token, err := s.Session.Commit(context.Background(), ops...)
		close(taken)
		time.Sleep(commitTime / 2)
		done <- outcome{token, err}
	}()
	select {
	case o := <-done:
		return o.token, o.err
	case <-ctx.Done():
		return member.Token{}, fmt.Errorf("%w: %w", record.ErrUnknownOutcome, context.Cause(ctx))
	}
}

// dial returns a connection to node i without a client.
func (a *testCluster) dial(i int) net.Conn {
	here, there := net.Pipe()
	a.nodes[i].dialed <- there
	return here
}

// posts sends a raw POST request, followed by more bytes, and discards the response.
func posts(t *testing.T, c net.Conn, path, body, rest string) {
	t.Helper()
	go func() { _, _ = io.Copy(io.Discard, c) }()
	_, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s%s",
		path, len(body), body, rest)
	if err != nil {
		t.Error(err)
	}
}

// TestCallerHangsUpAtAnyMoment checks that the lock or job of a caller that hangs up is free after
// one second and a few commits.
func TestCallerHangsUpAtAnyMoment(t *testing.T) {
	for _, verb := range []struct{ path, body string }{
		{"/v1/jobs/job/lock", `{"latch": "x"}`}, {"/v1/jobs/job/elect", "{}"},
	} {
		for _, waits := range []bool{false, true} {
			for after := time.Duration(0); after < 4*commitTime; after += commitTime / 8 {
				inClusterOver(t, newSlowStore,
					func(t *testing.T, a *testCluster) {
						first := a.dial(0)
						posts(t, first, verb.path, verb.body, "")
						if waits { // a second caller waits, and hangs up first
							time.Sleep(4 * commitTime)
							second := a.dial(0)
							posts(t, second, verb.path, verb.body, "")
							time.Sleep(after)
							second.Close()
							time.Sleep(commitTime / 4)
						} else {
							time.Sleep(after)
						}
						first.Close()
						time.Sleep(closeInterval + 6*commitTime) // retries take one second
						if left := a.nodes[0].recordsUnder(""); len(left) > 0 {
							t.Errorf("%s, %v, closed after %v: remaining %+v", verb.path, waits, after, left)
						}
						next := a.lock(t.Context(), a.client(1, newNetwork()), "job", "x")
						next.works()
						next.leave <- nil
						<-next.over
						time.Sleep(3 * closeInterval) // by then the job is closed
					})
			}
		}
	}
}

// TestCallerSendsTooMuch lets a caller send extra bytes and hang up. The node must detect the
// closed connection when it cannot write an EventAlive.
func TestCallerSendsTooMuch(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		c := a.dial(0)
		go posts(t, c, "/v1/jobs/job/lock", `{"latch": "x"}`, "GET / HTTP/1.1\r\n")
		time.Sleep(trusted)
		if len(a.nodes[0].recordsUnder("")) != 1 {
			t.Error("the lock is not held")
		}
		c.Close()
		time.Sleep(trusted)
		if left := a.nodes[0].recordsUnder(""); len(left) > 0 {
			t.Errorf("remaining %+v", left)
		}
	})
}

// TestLockRefusesInvalidRequest checks that a body that is invalid, too long or endless does not
// acquire the lock.
func TestLockRefusesInvalidRequest(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		for _, c := range []struct{ head, body, want string }{
			{"", `{"latch": "x"`, "400"},
			{"", `{"latch": "x"} {}`, "400"},
			{"", `{"latch": "x", "wait": 1}`, "400"},
			{"", `{"latch": ""}`, "400"},
			{"", `{"latch": "` + strings.Repeat("x", maxBodyBytes) + `"}`, "413"},
			{"", strings.Repeat(" ", maxBodyBytes) + `{"latch": "x"}`, "413"},
			{"Origin: http://elsewhere\r\nSec-Fetch-Site: cross-site\r\n", `{"latch": "x"}`, "403"},
			{"Content-Length: 20\r\n", `{"latch": `, "400"},
		} {
			conn := a.dial(0)
			if !strings.Contains(c.head, "Content-Length") {
				c.head += fmt.Sprintf("Content-Length: %d\r\n", len(c.body))
			}
			go fmt.Fprintf(conn, "POST /v1/jobs/job/lock HTTP/1.1\r\nHost: localhost\r\n"+
				"Content-Type: application/json\r\n%s\r\n%s", c.head, c.body)
			answer := make([]byte, 12)
			if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 "+c.want {
				t.Errorf("%q %.20q: response %q, %v, want %s", c.head, c.body, answer, err, c.want)
			}
			conn.Close()
		}
		synctest.Wait()
		if left := a.nodes[0].recordsUnder(""); len(left) > 0 {
			t.Errorf("remaining %+v", left)
		}
	})
}

// TestLockBesideABusyOne changes a lock frequently. Holders of other locks with the same name
// prefix, and callers that wait for them, must still get their keep-alives in time.
func TestLockBesideABusyOne(t *testing.T) {
	inCluster(t, func(t *testing.T, a *testCluster) {
		busy := func(each time.Duration, times int) {
			s := a.nodes[1].store.Session(nil)
			for i := range times {
				op := record.Op{Kind: record.SetOwned, Key: "latch/lock/latch/x2"}
				if i%2 > 0 {
					op.Kind = record.Drop
				}
				if _, err := s.Commit(t.Context(), op); err != nil {
					t.Error(err)
				}
				time.Sleep(each)
			}
		}
		holds := a.lock(t.Context(), a.client(0, newNetwork()), "lock", "x")
		holds.works()
		busy(trusted/9, 100)
		waits := a.lock(t.Context(), a.client(2, newNetwork()), "lock", "x")
		busy(adminapi.KeepAliveInterval*2/3, 20)
		for who, at := range map[string]*attempt{"holds": holds, "waits": waits} {
			select {
			case err := <-at.over:
				t.Errorf("the caller that %s it: %v", who, err)
				continue
			default:
			}
			if who == "holds" {
				at.leave <- nil
				<-at.over
			}
		}
		waits.works()
		waits.leave <- nil
		<-waits.over
	})
}
