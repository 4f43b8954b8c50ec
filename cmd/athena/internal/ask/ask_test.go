// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/adminclient"
)

// TestExplainSilence checks that a process that accepts connections and does not respond, as one
// that is stopped, is not reported as one that must be started.
func TestExplainSilence(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it accepts no connection; the kernel does
	c, err := adminclient.New(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err = c.Status(ctx)
	got := (&Question{admin: c.Address()}).Explain(err).Error()
	const want, unwanted = "stopped or overloaded", "start a node"
	if !strings.Contains(got, want) || strings.Contains(got, unwanted) {
		t.Errorf("got %q, want %q in it, and not %q", got, want, unwanted)
	}
}
