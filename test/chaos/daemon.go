// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminclient"
)

// daemonTick is the interval at which the runner polls a daemon.
const daemonTick = 20 * time.Millisecond

// startDaemon starts a node as "athena run". The runner gets its evidence from the admin API,
// over a socket with a path that no cut affects.
func (ps *processes) startDaemon(node int, c cluster.Config) error {
	secret := filepath.Join(ps.world.dir, "secret")
	if err := os.WriteFile(secret, c.Secret, 0o600); err != nil {
		return err
	}
	api := filepath.Join(ps.world.dir, "admin"+strconv.Itoa(node+1))
	at := place{
		Netns: ps.world.namespacePath(ps.first + node), Cgroup: ps.world.groupOf(ps.first + node),
		Daemon: []string{
			ps.o.athena, "run", "--addr", c.Addr, "--name", c.Name, "--size", strconv.Itoa(c.Size),
			"--seeds", strings.Join(c.Seeds, ","), "--join-only=" + strconv.FormatBool(c.JoinOnly),
			"--data-dir", c.DataDir, "--secret-file", secret, "--admin", "unix:" + api,
			"--heartbeat-interval", c.HeartbeatInterval.String(),
			"--heartbeat-timeout", c.HeartbeatTimeout.String(),
			"--leader-timeout", c.LeaderTimeout.String(), "--ttl-timeout", c.TTLTimeout.String(),
			"--retry-interval", c.RetryInterval.String(),
		},
	}
	client, err := adminclient.New("unix:" + api)
	if err != nil {
		return err
	}
	b, err := openEvidence(filepath.Join(ps.o.out, nodeName(node)+".jsonl"),
		evidence{Node: nodeName(node), Size: c.Size, Daemon: true})
	if err != nil {
		return err
	}
	p, out, err := launchProcess(roleEnter, at, ps.logs[node])
	if err != nil {
		return err
	}
	ps.nodes[node] = p
	go p.followOutput(out)
	go p.askDaemon(client, b)
	return nil
}

// askDaemon records the authority that a daemon reports, until the daemon ends.
func (p *process) askDaemon(client *adminclient.Client, b *evidenceFile) {
	defer b.file.Close()
	var term time.Time // of the last line
	var written int64
	for p.isAlive() {
		time.Sleep(daemonTick)
		before := readMonotonic()
		s, err := client.Status(context.Background())
		if err != nil {
			continue // it is paused, starting or has ended
		}
		after := readMonotonic()
		leads := s.IsLeader() && s.LeaseRemainingMS > 0 && s.TermSince != nil
		p.handleReport(report{At: before, Leads: leads, Token: s.Token, Active: s.Active()})
		switch {
		case !leads:
			term = time.Time{}
		case !s.TermSince.Equal(term):
			b.appendLine(evidence{Kind: kindHold, Token: s.Token, Begin: after, End: before})
			term, written = *s.TermSince, after
		case before > written:
			b.appendLine(evidence{Kind: kindHold, Token: s.Token, Begin: written, End: before})
			written = before
		}
	}
}
