// SPDX-License-Identifier: Apache-2.0

package transportkinds

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/athena-go/athena/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errSilent = errors.New("no answer")

// inFinder runs a test with a Finder that makes its handshakes with the given function.
func inFinder(t *testing.T, greet func(addr string) error, test func(*testing.T, *Finder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := NewFinder(QUIC, &tls.Config{})
		f.others[0].greet = func(ctx context.Context, addr string, _ *tls.Config) error {
			if err := greet(addr); err != nil {
				<-ctx.Done()
				return err
			}
			return nil
		}
		test(t, f)
		f.Close()
	})
}

func differs(err error) bool {
	_, ok := errors.AsType[*transport.ConfigMismatchError](err)
	return ok
}

// TestAnswerIsForTheNextDial checks what Explain returns before and after an address has answered,
// and that a successful dial deletes the answer.
func TestAnswerIsForTheNextDial(t *testing.T) {
	there := func(addr string) error {
		if addr == "tls:1" {
			return nil
		}
		return errSilent
	}
	inFinder(t, there, func(t *testing.T, f *Finder) {
		explain := func(addr string, err error, want bool) {
			t.Helper()
			got := f.Explain(addr, err)
			if differs(got) != want || !want && !errors.Is(got, err) {
				t.Errorf("%s: %v became %v, want a mismatch: %v", addr, err, got, want)
			}
			time.Sleep(2 * askTimeout)
		}
		explain("tls:1", errSilent, false)
		explain("tls:1", errSilent, true)
		explain("tls:1", errSilent, true)
		explain("tls:1", nil, false)
		explain("tls:1", errSilent, false)
		explain("tls:1", errSilent, true)
		time.Sleep(askInterval)
		explain("tls:1", errSilent, false) // asked again
		explain("down:1", errSilent, false)
		explain("down:1", errSilent, false)
		refused := &transport.CertificateError{Why: "test"}
		explain("tls:1", refused, false)
		explain("tls:1", context.Canceled, false)
		explain("tls:1", errSilent, false)
	})
	var none *Finder
	if err := none.Explain("tls:1", errSilent); !errors.Is(err, errSilent) {
		t.Errorf("a nil Finder: got %v", err)
	}
	none.Close()
}

// TestQuestionsAreBounded checks that repeated dials to addresses that are down cause a limited
// number of handshakes.
func TestQuestionsAreBounded(t *testing.T) {
	var asked atomic.Int64
	silent := func(string) error {
		asked.Add(1)
		return errSilent
	}
	inFinder(t, silent, func(t *testing.T, f *Finder) {
		began := time.Now()
		for time.Since(began) < 2*askInterval {
			for i := range 1000 {
				_ = f.Explain(fmt.Sprint(i), errSilent)
			}
			time.Sleep(askPause / 4)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if got, most := len(f.answers), int(askInterval/askPause); got > most {
			t.Errorf("%d answers are kept, want at most %d", got, most)
		}
		got, most := asked.Load(), int64(2*askInterval/askPause)
		if got < most/2 || got > most {
			t.Errorf("%d questions, want at most %d and half of them", got, most)
		}
	})
	asked.Store(0)
	inFinder(t, silent, func(t *testing.T, f *Finder) {
		for range 3 * askInterval / time.Second {
			_ = f.Explain("down:1", errSilent)
			time.Sleep(time.Second)
		}
		if got := asked.Load(); got != 3 {
			t.Errorf("one address was asked %d times in three intervals, want 3", got)
		}
	})
}

// TestCloseEndsQuestions checks that Close does not wait for an answer.
func TestCloseEndsQuestions(t *testing.T) {
	inFinder(t, func(string) error { return errSilent }, func(t *testing.T, f *Finder) {
		began := time.Now()
		_ = f.Explain("down:1", errSilent)
		f.Close()
		_ = f.Explain("down:2", errSilent)
		if took := time.Since(began); took > 0 {
			t.Errorf("Close took %v", took)
		}
	})
}
