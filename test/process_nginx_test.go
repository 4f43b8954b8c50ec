// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const nginxFile = "nginx/nginx.conf"

// startNginx starts nginx with the shipped file, and returns the bounds of a failover and of the
// time for which it does not use a server that failed.
func (p *proxied) startNginx() (within, pause time.Duration) {
	p.t.Helper()
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		p.t.Skip("nginx is not installed (make tools)")
	}
	folders := "http {\n  access_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		folders += fmt.Sprintf("  %s_temp_path %s;\n", kind, filepath.Join(p.dir, kind))
	}
	path := p.config(nginxFile, string(readExample(p.t, "deploy/"+nginxFile)),
		"listen 8000", "listen "+p.leader, "http {\n", folders)
	master := startCommand(p.t, nil, exec.Command(nginx, "-p", p.dir, "-c", path, "-e", "stderr",
		"-g", "daemon off; pid nginx.pid; error_log stderr crit;"))
	p.t.Cleanup(func() { // SIGKILL would leave the workers running
		master.signal(syscall.SIGTERM)
		<-master.exited
	})
	pause = p.duration(nginxFile, "fail_timeout")
	p.servedBy(p.awaitLeader(), patience)
	return pause + time.Second + busy, pause
}

// sendFor sends a request every few milliseconds for four pauses. It returns how many failed, how
// many requests reached nodes that do not lead, and how many may if nginx tries each node only once
// in a pause.
func (p *proxied) sendFor(method string, pause time.Duration) (failed, refused, most int) {
	p.t.Helper()
	before, sent, began := p.refused(), p.sent, time.Now()
	for ; time.Since(began) < 4*pause; time.Sleep(5 * time.Millisecond) {
		if _, ok := p.send(method, p.leader); !ok {
			failed++
		}
	}
	refused, most = p.refused()-before, (len(p.nodes)-1)*int(time.Since(began)/pause+1)
	p.t.Logf("%s: of %d, %d failed; %d reached followers", method, p.sent-sent, failed, refused)
	return failed, refused, most
}

// TestNginx checks that nginx finds the leader by the 503 of the others, with the shipped file, and
// what its README states about requests that reach them, or a server that is down.
func TestNginx(t *testing.T) {
	t.Parallel()
	p := newProxied(t, nil)
	within, pause := p.startNginx()
	for _, method := range []string{"GET", "POST", "PUT"} {
		if failed, refused, most := p.sendFor(method, pause); failed != 0 || refused > most ||
			refused == 0 {
			t.Errorf("%s: %d failed, want 0; %d reached followers, want 1 to %d",
				method, failed, refused, most)
		}
	}
	p.failOver(within) // one server of three is down now
	if failed, _, _ := p.sendFor("GET", pause); failed != 0 {
		t.Errorf("%d reads failed beside a server that is down, want 0", failed)
	}
	if failed, _, most := p.sendFor("POST", pause); failed == 0 || failed > most/2 {
		t.Errorf("%d writes failed beside a server that is down, want 1 to %d", failed, most/2)
	}
}

// TestNginxHungLeader checks that a leader that hangs holds up each request no longer than
// proxy_read_timeout, and how many later ones nginx sends to it.
func TestNginxHungLeader(t *testing.T) {
	t.Parallel()
	p := newProxied(t, nil)
	within, pause := p.startNginx()
	read := p.duration(nginxFile, "proxy_read_timeout")
	const watched = 6 * time.Second
	h := p.hangLeader(max(within, read) + busy + watched)
	settled := h.elected.Add(within)
	if noticed := h.began.Add(read + busy); noticed.After(settled) {
		settled = noticed
	}
	most := map[string]int{"GET": 0, "POST": int(watched/pause) + 1, "PUT": int(watched/pause) + 1}
	for method, most := range most {
		longest, failed := h.count(t, method, settled)
		if longest > read+busy || failed > most {
			t.Errorf("%s: the longest took %v, want at most %v; %d failed after the leader was found, "+
				"want at most %d", method, longest, read+busy, failed, most)
		}
	}
}
