// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"
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

// TestHAProxy checks that HAProxy finds the leader, and each ready node, with the shipped file.
func TestHAProxy(t *testing.T) {
	haproxy, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("haproxy is not installed (make tools)")
	}
	const file = "haproxy/haproxy.cfg"
	p := newProxied(t)
	path := p.config(file, ":8000", " "+p.leader)
	startCommand(t, nil, exec.Command(haproxy, "-db", "-f", path))
	p.servedByAll(p.nodes...)
	p.reachLeaderOnly()
	leaders := p.failOver(p.duration(file, "inter") + p.duration(file, "timeout check") + busy)
	p.reachLeaderOnly()
	p.servedByAll(leaders[1:]...) // a drained node is still an active member
}
