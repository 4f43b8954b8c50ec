// SPDX-License-Identifier: Apache-2.0

package adminclient_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/athena-go/athena/internal/adminclient"
)

// TestStoppedNodeIsSkipped asks two nodes. The first one accepts connections and answers nothing,
// as a process that was stopped. Only a question goes to the second node, and the next one begins
// there.
func TestStoppedNodeIsSkipped(t *testing.T) {
	t.Parallel()
	stopped, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Close()
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("the second node got %s %s", r.Method, r.URL.Path)
		}
		asked++
		_, _ = io.WriteString(w, `[{"name":"n2"}]`)
	}))
	defer s.Close()
	c, err := adminclient.New(stopped.Addr().String() + "," + strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if m, err := c.Members(t.Context()); err != nil || len(m) != 1 || m[0].Name != "n2" {
			t.Errorf("got %+v, %v, want the answer of the second node", m, err)
		}
	}
	if asked != 2 {
		t.Errorf("the second node was asked %d times, want 2", asked)
	}
	if c, err = adminclient.New(c.Address()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), adminclient.ClientTimeout*3/5)
	defer cancel()
	if _, err := c.Prefer(ctx, "", 1); err == nil {
		t.Error("a stopped node has answered")
	}
}
