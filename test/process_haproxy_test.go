// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"crypto/tls"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/internal/simnet"
)

// servedByAll waits until requests to any member are served by exactly these nodes.
func (p *proxied) servedByAll(nodes ...*proxyNode) {
	p.t.Helper()
	var names []string
	for _, n := range nodes {
		names = append(names, n.name)
	}
	slices.Sort(names)
	eventually(p.t, fmt.Sprintf("%q serve", names), func() bool {
		var got []string
		for range 2 * len(names) {
			name, _ := p.send("GET", p.any+"/any")
			got = append(got, name)
		}
		slices.Sort(got)
		return slices.Equal(slices.Compact(got), names)
	})
}

// reachLeaderOnly waits until of several requests for each node none reaches one that does not
// lead.
func (p *proxied) reachLeaderOnly() {
	p.t.Helper()
	eventually(p.t, "requests reach only the leader", func() bool {
		before := p.refused()
		for range 4 * len(p.nodes) {
			if _, ok := p.send("POST", p.leader); !ok {
				return false
			}
		}
		return p.refused() == before
	})
}

const haproxyFile = "haproxy/haproxy.cfg"

// startHAProxy starts HAProxy with a configuration and returns the longest time after which it
// notices that a leader hangs, and that after which it finds the next one.
func (p *proxied) startHAProxy(text string) (notices, finds time.Duration) {
	p.t.Helper()
	haproxy, err := exec.LookPath("haproxy")
	if err != nil {
		p.t.Skip("haproxy is not installed (make tools)")
	}
	path := p.config(haproxyFile, text, ":8000", " "+p.leader)
	startCommand(p.t, nil, exec.Command(haproxy, "-db", "-f", path))
	check := p.duration(haproxyFile, "timeout check") + busy
	return p.duration(haproxyFile, "inter") + check, p.duration(haproxyFile, "downinter") + check
}

// TestHAProxy checks that HAProxy finds the leader, and each ready node, with the shipped file.
func TestHAProxy(t *testing.T) {
	t.Parallel()
	p := newProxied(t, nil)
	_, finds := p.startHAProxy(string(readExample(t, "deploy/"+haproxyFile)))
	p.servedByAll(p.nodes...)
	p.reachLeaderOnly()
	leaders := p.failOver(finds)
	p.reachLeaderOnly()
	p.servedByAll(leaders[1:]...) // a drained node is still an active member
}

// TestHAProxyHungLeader checks that a leader that hangs holds requests no longer than HAProxy needs
// to notice, and that requests reach the next leader.
func TestHAProxyHungLeader(t *testing.T) {
	t.Parallel()
	p := newProxied(t, nil)
	notices, finds := p.startHAProxy(string(readExample(t, "deploy/"+haproxyFile)))
	p.reachLeaderOnly()
	h := p.hangLeader(finds + 2*time.Second)
	for _, method := range []string{"GET", "POST", "PUT"} {
		longest, failed := h.count(t, method, h.elected.Add(finds))
		if longest > notices || failed > 0 {
			t.Errorf("%s: the longest took %v, want at most %v; %d failed after the leader was found",
				method, longest, notices, failed)
		}
	}
}

// haproxyTLS returns the shipped file with the lines that README.md shows for nodes whose admin API
// uses TLS.
func haproxyTLS(t *testing.T, ca string) string {
	t.Helper()
	text, readme := string(readExample(t, "deploy/"+haproxyFile)),
		string(readExample(t, "deploy/haproxy/README.md"))
	const checks = "  default-server check-ssl verify required ca-file "
	const shown = checks + "/etc/haproxy/admin-ca.pem\n"
	const server = "  server n1 10.0.0.1:8080 port 7070 verifyhost n1.example.org\n"
	if !strings.Contains(readme, shown) || !strings.Contains(readme, server) {
		t.Fatalf("README.md does not show\n%s%s", shown, server)
	}
	text = strings.Replace(text, "\n# To the leader.", checks+ca+"\n\n# To the leader.", 1)
	return regexp.MustCompile(`(server (n\d) .*)`).ReplaceAllString(text,
		"$1 verifyhost $2.example.org")
}

// TestHAProxyTLS checks nodes whose admin API uses TLS and demands certificates of clients.
func TestHAProxyTLS(t *testing.T) {
	t.Parallel()
	servers, clients, others := simnet.NewAuthority(t), simnet.NewAuthority(t),
		simnet.NewAuthority(t)
	dir := t.TempDir()
	start := func(t *testing.T, issue func(i int) (a *simnet.Authority, host string)) *proxied {
		return newProxied(t, func(i int) ([]string, []adminclient.Option) {
			a, host := issue(i)
			cert, key := filepath.Join(dir, host+".pem"), filepath.Join(dir, host+".key")
			simnet.WritePair(t, a.Issue(host, nil), cert, key)
			return []string{"--admin-cert", cert, "--admin-key", key, "--admin-client-ca", clients.Path},
				[]adminclient.Option{adminclient.WithTLS(&tls.Config{
					RootCAs: a.Pool(), ServerName: host,
					Certificates: []tls.Certificate{*clients.Issue("ops", nil)},
				})}
		})
	}
	t.Run("valid", func(t *testing.T) {
		p := start(t, func(i int) (*simnet.Authority, string) {
			return servers, fmt.Sprintf("n%d.example.org", i)
		})
		_, finds := p.startHAProxy(haproxyTLS(t, servers.Path))
		p.servedByAll(p.nodes...)
		p.reachLeaderOnly()
		leaders := p.failOver(finds)
		p.reachLeaderOnly()
		p.servedByAll(leaders[1:]...)
	})
	t.Run("invalid", func(t *testing.T) {
		p := start(t, func(i int) (*simnet.Authority, string) {
			return [...]*simnet.Authority{servers, others, servers}[i-1],
				[...]string{"n1.example.org", "n2.example.org", "n4.example.org"}[i-1]
		})
		p.startHAProxy(haproxyTLS(t, servers.Path))
		p.servedByAll(p.nodes[0]) // the others have another authority or another name
	})
}
