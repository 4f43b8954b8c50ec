// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/simnet"
)

// writeConfig writes the configuration file of node i: lines that never change, and more lines.
func (c *nodes) writeConfig(i int, more ...string) (path string) {
	c.t.Helper()
	lines := append([]string{
		"addr: " + c.addrs[i-1], "name: n" + strconv.Itoa(i), "size: " + strconv.Itoa(len(c.addrs)),
		"seeds: [" + strings.Join(c.addrs, ", ") + "]", "data-dir: " + c.store(i),
		"admin: " + c.admin(i), "admin-write: true", "log-format: json",
	}, more...)
	path = filepath.Join(c.dir, fmt.Sprintf("%d.yaml", i))
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

const (
	reloaded    = `"message":"reloaded the configuration"`
	notReloaded = `"message":"cannot reload the configuration: nothing was changed"`
)

// reload sends SIGHUP and waits for one more line with a text.
func (p *process) reload(text string) {
	p.t.Helper()
	before := strings.Count(p.stderr.String(), text)
	p.signal(syscall.SIGHUP)
	eventually(p.t, "a line with "+text, func() bool {
		return strings.Count(p.stderr.String(), text) > before
	})
}

// TestProcessReload checks what SIGHUP changes, what it only reports, and that after an error
// nothing has changed.
func TestProcessReload(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 1)
	secret := "secret-file: " + filepath.Join(c.dir, "secret")
	path := c.writeConfig(1, secret)
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	// nohup ignores SIGHUP, but not for a daemon that handles it.
	ignoring := []string{"-c", `trap "" HUP; exec "$@"`, "sh", bin, "run", "--config", path,
		"--label", "zone=a"}
	p := startCommand(t, nil, exec.Command("sh", ignoring...))
	c.settle(1)
	labels := func() string {
		s, _ := c.status(1)
		return fmt.Sprint(s.View.Members[0].Labels, s.View.Members[0].Preference)
	}
	before := labels()
	for _, bad := range []string{"size: 0", "secret-file: /no/such/file", "heartbeat: 1s",
		"insecure: true\nlabel: role=b"} {
		c.writeConfig(1, bad)
		p.reload(notReloaded)
		if got := labels(); got != before {
			t.Errorf("after the invalid line %q: %s, want %s", bad, got, before)
		}
	}
	c.writeConfig(1, secret, "preference: 3", "label: zone=b", "log-level: debug",
		"leader-timeout: 2s")
	p.reload(`"keys":"leader-timeout,lease-timeout"`)
	if want := `"changed":"log-level,preference"`; !strings.Contains(p.stderr.String(), want) {
		t.Errorf("no line has %s", want)
	}
	eventually(t, "the preference", func() bool { return labels() == "map[zone:a] 3" })
	lines := strings.Count(p.stderr.String(), reloaded)
	c.writeConfig(1, secret, "log-level: warn", "leader-timeout: 2s")
	p.reload(`"keys":"leader-timeout,lease-timeout"`)
	p.waitForLines("these keys have changed but need a restart: the node keeps their old values", 2)
	if strings.Count(p.stderr.String(), reloaded) > lines {
		t.Error("a line of level info was logged at the level warn")
	}
	if code, _, stderr := run(t, "prefer", "4", "--admin", c.admin(1)); code != 0 {
		t.Errorf("athena prefer: exit %d, %s", code, stderr)
	}
	p.waitForLines("admin action", 1) // whatever the level is
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("after SIGTERM: exit %d, want 0", code)
	}
}

// TestProcessReloadOfARefusedKey checks that a reload does not report a preference that the node
// refuses, because only the new size permits it, and that the next reload tries again.
func TestProcessReloadOfARefusedKey(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 1)
	secret := "secret-file: " + filepath.Join(c.dir, "secret")
	p := start(t, "run", "--config", c.writeConfig(1, secret))
	c.settle(1)
	c.addrs = append(c.addrs, freeAddresses(t, 2)...)
	c.writeConfig(1, secret, "preference: never", "label: zone=b")
	for range 2 {
		p.reload("cannot complete the change of a key: the next reload tries again")
	}
	eventually(t, "two reloads", func() bool {
		return strings.Count(p.stderr.String(), reloaded) == 2
	})
	if got := p.stderr.String(); !strings.Contains(got, `"changed":"label"`) ||
		strings.Contains(got, `"changed":"label,preference"`) {
		t.Error("the first reload must report the label, and not the preference")
	}
}

// TestProcessReloadWhileJoining starts a daemon with a wrong secret while one of three is down, so
// that it does not give up. After the file has the right secret, SIGHUP makes it join.
func TestProcessReloadWhileJoining(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	right, err := os.ReadFile(filepath.Join(c.dir, "secret"))
	if err != nil {
		t.Fatal(err)
	}
	wrong := c.secret("wrong", string(cluster.NewSecret()))
	start(t, "run", "--config", c.writeConfig(1, "secret-file: "+filepath.Join(c.dir, "secret")))
	p := start(t, "run", "--config", c.writeConfig(2, "secret-file: "+wrong))
	eventually(t, "a refused certificate", func() bool {
		return strings.Contains(p.stderr.String(), "certificate")
	})
	c.secret("wrong", string(right))
	p.reload(reloaded)
	c.awaitQuorum(1, 2)
}

// countEvents sends events from each node to all until the function stop is called, and counts
// those that were sent. Daemons have no handlers, so each member must refuse the event.
func (c *nodes) countEvents() (sent *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var work sync.WaitGroup
	sent = new(atomic.Int64)
	for i := range c.addrs {
		client := c.openClient(i + 1)
		work.Go(func() {
			for ; ctx.Err() == nil; <-time.After(20 * time.Millisecond) {
				answer, err := client.Send(c.t.Context(), adminapi.SendRequest{
					Name: "Probe", Payload: json.RawMessage(`{}`),
				})
				handled := err == nil && len(answer.Results) == len(c.addrs)
				for _, r := range answer.Results {
					handled = handled && r.Result == adminapi.CodeUnknownType
				}
				if !handled {
					c.t.Errorf("n%d: event %d: %+v, %v", i+1, sent.Load(), answer, err)
					return
				}
				sent.Add(1)
			}
		})
	}
	return sent, func() {
		cancel()
		work.Wait()
	}
}

// patientTimings are lines of a configuration file for nodes that must not lose a member or a
// leader even if they wait long for a CPU.
const patientTimings = "heartbeat-timeout: 15s\nleader-timeout: 20s\nttl-timeout: 40s"

// rotate runs the rounds on three daemons under traffic: each round gives the lines of the
// configuration of node i. It checks that no leader is replaced and no handshake fails.
func rotate(t *testing.T, c *nodes, first func(i int) string, rounds ...func(i int) string) {
	t.Helper()
	var all []*process
	for i := range c.addrs {
		path := c.writeConfig(i+1, patientTimings, first(i+1))
		all = append(all, start(t, "run", "--config", path))
	}
	leader := c.settle(1, 2, 3)
	before, _ := c.status(leader)
	var logs []int
	for _, p := range all {
		logs = append(logs, len(p.stderr.String()))
	}
	sent, stop := c.countEvents()
	for _, round := range rounds {
		for i, p := range all {
			c.writeConfig(i+1, patientTimings, round(i+1))
			p.reload(reloaded)
		}
	}
	enough := sent.Load() + 100
	eventually(t, "100 events after the last round", func() bool {
		return sent.Load() >= enough || t.Failed()
	})
	stop()
	after, _ := c.status(leader)
	if after.Token != before.Token || after.Active() != 3 {
		t.Errorf("token %d, %d active; want token %d, 3 active", after.Token, after.Active(),
			before.Token)
	}
	t.Logf("%d events to 3 members each", sent.Load())
	for i, p := range all {
		for line := range strings.Lines(p.stderr.String()[logs[i]:]) {
			isProbe := strings.Contains(line, `"event":"Probe"`) // no handler
			if !strings.Contains(line, `"level":"info"`) && !isProbe || strings.Contains(line, "lost") {
				t.Errorf("n%d: %s", i+1, line)
			}
		}
	}
}

// TestProcessSecretInTwoRounds replaces the secret of running daemons without a restart.
func TestProcessSecretInTwoRounds(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"quic", "tls"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			testSecretInTwoRounds(t, "\ntransport: "+transport)
		})
	}
}

func testSecretInTwoRounds(t *testing.T, transport string) {
	c := newNodes(t, 3)
	old, next := filepath.Join(c.dir, "secret"), c.secret("next", string(cluster.NewSecret()))
	rotate(t, c, func(int) string { return "secret-file: " + old + transport },
		func(int) string { return "secret-file: " + old + "\nother-secret-file: " + next + transport },
		func(int) string { return "secret-file: " + next + transport })
	code, _, stderr := run(t, c.flags(1, "--addr", freeAddresses(t, 1)[0], "--data-dir", c.store(9),
		"--admin", "off", strings.Replace(transport, "\ntransport: ", "--transport=", 1))...)
	if code != 1 || !strings.Contains(stderr, "same secret") {
		t.Errorf("a node with the removed secret: exit %d, %s", code, stderr)
	}
}

// TestProcessCertificatesAreReplaced replaces the authority and the certificates of running
// daemons, and checks that nothing happens when the old certificates expire.
func TestProcessCertificatesAreReplaced(t *testing.T) {
	t.Parallel()
	const life = 15 * time.Second
	c := newNodes(t, 3)
	old, next := simnet.NewAuthority(t), simnet.NewAuthority(t)
	file := func(i int, name string) string { return filepath.Join(c.dir, fmt.Sprint(name, i)) }
	read := func(path string) []byte {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var expired time.Time
	issue := func(i int, by *simnet.Authority, authorities ...[]byte) string {
		c.secret(fmt.Sprint("ca", i), string(bytes.Join(authorities, nil)))
		if by != nil {
			made := by.Issue("127.0.0.1", func(x *x509.Certificate) {
				if by == old {
					x.NotAfter = time.Now().Add(life)
					expired = x.NotAfter
				}
			})
			simnet.WritePair(t, made, file(i, "cert"), file(i, "key"))
		}
		return fmt.Sprintf("tls-ca: %s\ntls-cert: %s\ntls-key: %s",
			file(i, "ca"), file(i, "cert"), file(i, "key"))
	}
	was, is := read(old.Path), read(next.Path)
	rotate(t, c, func(i int) string { return issue(i, old, was) },
		func(i int) string { return issue(i, nil, was, is) },
		func(i int) string { return issue(i, next, was, is) },
		func(i int) string { return issue(i, nil, is) },
		func(i int) string {
			time.Sleep(time.Until(expired))
			return issue(i, nil, is)
		})
}
