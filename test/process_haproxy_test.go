// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
)

// haproxyConfig contains the checks from the HAProxy manual, in HTTP/1.0 without a Host header. The
// placeholders are the folder of its sockets and the addresses of three nodes.
const haproxyConfig = `
defaults
  mode http
  retries 0
  timeout connect 1s
  timeout client 5s
  timeout server 5s
  default-server check inter 100ms fall 1 rise 1
listen leader
  bind unix@%[1]s/leader
  option httpchk GET /readyz?leader
  server n1 %[2]s
  server n2 %[3]s
  server n3 %[4]s
listen ready
  bind unix@%[1]s/ready
  balance roundrobin
  option httpchk GET /readyz
  server n1 %[2]s
  server n2 %[3]s
  server n3 %[4]s
`

// proxied is HAProxy in front of three nodes.
type proxied struct{ dir, token string }

// node returns the status of the node to which HAProxy sends a request, or false if no node gets
// it.
func (p proxied) node(t *testing.T, listen string) (s adminapi.Status, answered bool) {
	t.Helper()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(p.dir, listen))
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://localhost/v1/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := client.Do(req)
	if err != nil {
		return s, false
	}
	defer resp.Body.Close()
	return s, resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(&s) == nil
}

// leads waits until HAProxy sends requests for the leader to a leading node other than the given
// one. Until its first check, HAProxy uses every node.
func (p proxied) leads(t *testing.T, but ...string) (name string) {
	t.Helper()
	began := time.Now()
	eventually(t, fmt.Sprintf("a leader other than %q", but), func() bool {
		s, ok := p.node(t, "leader")
		name = s.Self.Name
		return ok && s.IsLeader() && !slices.Contains(but, name)
	})
	t.Logf("HAProxy uses %s as the leader after %v", name, time.Since(began).Round(time.Millisecond))
	return name
}

// serve waits until HAProxy sends requests for any node to exactly these nodes.
func (p proxied) serve(t *testing.T, names ...string) {
	t.Helper()
	slices.Sort(names)
	eventually(t, fmt.Sprintf("%q serve", names), func() bool {
		var got []string
		for range 2 * len(names) {
			s, _ := p.node(t, "ready")
			got = append(got, s.Self.Name)
		}
		slices.Sort(got)
		return slices.Equal(slices.Compact(got), names)
	})
}

// TestHAProxy checks that HAProxy finds the leader, and each ready node, after one leader is killed
// and after the next one is drained.
func TestHAProxy(t *testing.T) {
	haproxy, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("haproxy is not installed (make tools)")
	}
	c := newNodes(t, 3)
	p := proxied{c.dir, "0123456789-the-token"}
	token := c.secret("token", p.token)
	all, addrs := map[string]*process{}, map[string]string{}
	for i := range 3 {
		name := fmt.Sprint("n", i+1)
		one := c.start(i+1, "--admin", "127.0.0.1:0", "--admin-token-file", token, "--admin-write")
		eventually(t, "an admin API", func() bool {
			found := adminOfLog.FindStringSubmatch(one.stderr.String())
			if found != nil {
				addrs[name] = found[1]
			}
			return found != nil
		})
		all[name] = one
	}
	path := filepath.Join(c.dir, "haproxy.cfg")
	config := fmt.Sprintf(haproxyConfig, c.dir, addrs["n1"], addrs["n2"], addrs["n3"])
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	startCommand(t, nil, exec.Command(haproxy, "-db", "-f", path))
	p.serve(t, "n1", "n2", "n3")
	first := p.leads(t)

	all[first].signal(syscall.SIGKILL)
	second := p.leads(t, first)
	third := "n1"
	for third == first || third == second {
		third = fmt.Sprint("n", third[1]-'0'+1)
	}
	p.serve(t, second, third)

	shown, err := admin.ReadToken(token)
	if err != nil {
		t.Fatal(err)
	}
	client, err := adminclient.New(addrs[second], adminclient.WithToken(shown.Current))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Drain(t.Context(), ""); err != nil {
		t.Fatalf("drain of %s: %v", second, err)
	}
	if got := p.leads(t, first, second); got != third {
		t.Errorf("%s leads, want %s", got, third)
	}
	p.serve(t, second, third) // a drained node is still an active member
}
