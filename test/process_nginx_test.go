// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startNginx starts nginx with the shipped file, after a replacement, and returns the bounds of a
// failover and of the time for which it does not use a server that failed.
func (p *proxied) startNginx(from, to string) (within, pause time.Duration) {
	p.t.Helper()
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		p.t.Skip("nginx is not installed (make tools)")
	}
	const file = "nginx/nginx.conf"
	folders := "http {\n  access_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		folders += fmt.Sprintf("  %s_temp_path %s;\n", kind, filepath.Join(p.dir, kind))
	}
	path := p.config(file, "listen 8000", "listen "+p.leader, "http {\n", folders, from, to)
	master := startCommand(p.t, nil, exec.Command(nginx, "-p", p.dir, "-c", path, "-e", "stderr",
		"-g", "daemon off; pid nginx.pid; error_log stderr crit;"))
	p.t.Cleanup(func() { // SIGKILL would leave the workers running
		master.signal(syscall.SIGTERM)
		<-master.exited
	})
	pause = p.duration(file, "fail_timeout")
	p.servedBy(p.awaitLeader(), patience)
	return pause + time.Second + busy, pause
}

// sendFor sends requests for this time and returns how many failed, how many requests reached nodes
// that do not lead, and how many may if nginx tries each only once in a pause.
func (p *proxied) sendFor(method string, pause time.Duration) (failed, refused, most int) {
	p.t.Helper()
	before, sent, began := p.refused(), p.sent, time.Now()
	for time.Since(began) < 4*pause {
		if _, ok := p.send(method, p.leader); !ok {
			failed++
		}
	}
	refused, most = p.refused()-before, (len(p.nodes)-1)*int(time.Since(began)/pause+1)
	p.t.Logf("%s: of %d, %d failed; %d reached followers", method, p.sent-sent, failed, refused)
	return failed, refused, most
}

// TestNginx checks that nginx finds the leader by the 503 of the others, with the shipped file, and
// what its README states about requests that reach them.
func TestNginx(t *testing.T) {
	t.Run("shipped", func(t *testing.T) {
		p := newProxied(t)
		within, pause := p.startNginx("", "")
		if failed, refused, most := p.sendFor("GET", pause); failed != 0 || refused > most {
			t.Errorf("%d reads failed, want 0; %d reached followers, want at most %d",
				failed, refused, most)
		}
		if failed, refused, _ := p.sendFor("POST", pause); failed != refused || refused == 0 {
			t.Errorf("%d writes failed, and %d reached followers, want the same", failed, refused)
		}
		p.failOver(within)
	})
	t.Run("repeats", func(t *testing.T) {
		p := newProxied(t)
		const repeats = "proxy_next_upstream http_503 non_idempotent;"
		if !strings.Contains(string(readExample(t, "deploy/nginx/README.md")), repeats) {
			t.Errorf("README.md does not have %s", repeats)
		}
		within, pause := p.startNginx("proxy_next_upstream error timeout http_503;", repeats)
		if failed, refused, most := p.sendFor("POST", pause); failed != 0 || refused > most {
			t.Errorf("%d writes failed, want 0; %d reached followers, want at most %d",
				failed, refused, most)
		}
		p.failOver(within)
	})
}
