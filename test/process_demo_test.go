// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/athena-go/athena/internal/adminapi"
)

// These are the times promised to a new user, in milliseconds.
const (
	formsWithin    = 3000
	failsOverAfter = 1500
)

var (
	formedLine = regexp.MustCompile(`(\w+) active members? and a quorate leader after (\d+) ms`)
	takenOver  = regexp.MustCompile(`(n\d) leads with authority, token \d+, (\d+) ms after`)
	nodeLine   = regexp.MustCompile(`(?m)^n\d .*, process (\d+)$`)
	restarted  = regexp.MustCompile(`(n\d) restarted, process (\d+)`)
	askLine    = regexp.MustCompile(`(?m)^query      (.*)$`)
	adminLine  = regexp.MustCompile(`(?m)^dashboard  (http://\S+)/$`)
)

// number parses the last group of a match.
func number(t *testing.T, match []string) int {
	t.Helper()
	n, err := strconv.Atoi(match[len(match)-1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// startDemo starts a demo on a free port, waits until it has formed, and returns it with the
// address of its API.
func startDemo(t *testing.T, args ...string) (p *process, api string) {
	t.Helper()
	p = start(t, append([]string{"demo", "--admin", "127.0.0.1:0"}, args...)...)
	p.waitFormed()
	first, _, _ := strings.Cut(p.stdout.String(), "\n")
	match := adminLine.FindStringSubmatch(first)
	if match == nil {
		t.Fatalf("the first line of the demo is %q, want the address of its API", first)
	}
	return p, match[1]
}

// waitFormed waits until a demo has formed.
func (p *process) waitFormed() {
	p.t.Helper()
	eventually(p.t, "the demo has formed", func() bool {
		return formedLine.MatchString(p.stdout.String())
	})
}

// demoNode is an entry of /v1/nodes.
type demoNode struct {
	Name, Address, Admin string
	PID                  int
	Alive, Paused, Cut   bool
}

func ask(t *testing.T, method, url string, into any) (code int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return resp.StatusCode
}

// TestDemo checks that a new user has five active members and a quorate leader, and that nothing
// remains at the end. The time until they are active depends on what else the machine does, so
// only a full run checks it.
func TestDemo(t *testing.T) {
	var args []string
	if !testing.Short() {
		args = []string{"--for", "3s"}
	}
	p, api := startDemo(t, args...)
	match := formedLine.FindStringSubmatch(p.stdout.String())
	if match[1] != "five" {
		t.Errorf("%s active members, want five", match[1])
	}
	if ms := number(t, match); ms > formsWithin && !testing.Short() {
		t.Errorf("formed after %d ms, want at most %d", ms, formsWithin)
	}
	var nodes []demoNode
	if code := ask(t, "GET", api+"/v1/nodes", &nodes); code != 200 || len(nodes) != 5 {
		t.Fatalf("GET /v1/nodes: %d, %+v, want 200 and five", code, nodes)
	}
	var leader struct{ Name string }
	if code := ask(t, "GET", api+"/v1/leader", &leader); code != 200 || leader.Name == "" {
		t.Errorf("GET /v1/leader: %d, %+v, want 200 and a name", code, leader)
	}
	// Paste the printed command into a shell in another folder.
	paste := askLine.FindStringSubmatch(p.stdout.String())[1]
	sh := exec.Command("sh", "-c", paste)
	sh.Dir = t.TempDir()
	if out, err := sh.CombinedOutput(); err != nil || strings.Count(string(out), " active ") != 5 {
		t.Errorf("%s: %v, prints\n%s\nwant five active members", paste, err, out)
	}
	if testing.Short() {
		p.signal(syscall.SIGINT)
	}
	if code := p.wait(); code != 0 || p.stderr.String() != "" {
		t.Errorf("exit %d, error %q, want 0 and none", code, &p.stderr)
	}
	nothingLeft(t, p.stdout.String(), p.cmd.Env)
}

// nothingLeft checks that no process and no file of a demo with this output remains.
func nothingLeft(t *testing.T, printed string, environ []string) {
	t.Helper()
	nodes := nodeLine.FindAllStringSubmatch(printed, -1)
	if len(nodes) == 0 && printed != "" {
		t.Errorf("the demo printed\n%s\nwant the processes of its nodes", printed)
	}
	for _, n := range nodes {
		pid := number(t, n)
		eventually(t, n[0]+" has ended", func() bool { return syscall.Kill(pid, 0) != nil })
	}
	for _, v := range environ {
		if dir, ok := strings.CutPrefix(v, "TMPDIR="); ok {
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("after the demo: %v, %v, want nothing", left, err)
			}
		}
	}
}

// TestDemoStopped stops a demo by each signal, sent twice. The demo must leave nothing behind, in
// particular not its secret.
func TestDemoStopped(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			if signal.Ignored(s) {
				t.Skip("the parent of the tests ignores this signal, and so does the demo")
			}
			t.Parallel()
			p, _ := startDemo(t, "--size", "3")
			p.signal(s)
			p.signal(s)
			if code := p.wait(); code != 0 || p.stderr.String() != "" {
				t.Errorf("exit %d, error %q, want 0 and none", code, &p.stderr)
			}
			nothingLeft(t, p.stdout.String(), p.cmd.Env)
		})
	}
}

// TestDemoQuit checks that SIGQUIT makes a demo print its stacks and leave nothing behind.
func TestDemoQuit(t *testing.T) {
	t.Parallel()
	p, _ := startDemo(t, "--size", "3")
	p.signal(syscall.SIGQUIT)
	code, said := p.wait(), p.stderr.String()
	if code != 1 || !strings.Contains(said, "goroutine 1 [") || !strings.Contains(said, "SIGQUIT") {
		t.Errorf("exit %d, error\n%s\nwant 1 and the stacks", code, said)
	}
	nothingLeft(t, p.stdout.String(), p.cmd.Env)
}

// TestDemoEnvironment checks that the demo serves its API at the address in ATHENA_ADMIN.
func TestDemoEnvironment(t *testing.T) {
	t.Parallel()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	socket := "unix:" + filepath.Join(t.TempDir(), "a")
	p := startCommand(t, nil, exec.Command("env", "ATHENA_ADMIN="+socket, path, "demo", "--size", "1"))
	p.waitFormed()
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 0 || !strings.HasPrefix(p.stdout.String(), "admin API  "+socket) {
		t.Errorf("exit %d, output\n%s\nwant 0 and %s", code, &p.stdout, socket)
	}
}

// TestDemoUnread stops reading the output of a demo, as head does, before the demo prints anything
// or while it has nothing to print.
func TestDemoUnread(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]*regexp.Regexp{"at once": nil, "at rest": formedLine} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, in, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			if last == nil {
				out.Close()
			}
			p := startTo(t, in, "demo", "--size", "3", "--admin", "127.0.0.1:0")
			in.Close() // the demo has its own copy
			var printed strings.Builder
			lines := bufio.NewScanner(out)
			for last != nil && !last.MatchString(printed.String()) && lines.Scan() {
				fmt.Fprintln(&printed, lines.Text())
			}
			out.Close()
			if code := p.wait(); code != 1 || !strings.Contains(p.stderr.String(), "broken pipe") {
				t.Errorf("exit %d, error %q, want 1 and the reason", code, &p.stderr)
			}
			nothingLeft(t, printed.String(), p.cmd.Env)
		})
	}
}

// TestDemoKill kills the process of the leader. The demo must soon show the next leader and keep
// running.
func TestDemoKill(t *testing.T) {
	p, api := startDemo(t)
	var times []int
	for range 3 {
		var leader struct{ Name string }
		if code := ask(t, "GET", api+"/v1/leader", &leader); code != 200 {
			t.Fatalf("GET /v1/leader: %d, want 200", code)
		}
		var nodes []demoNode
		ask(t, "GET", api+"/v1/nodes", &nodes)
		for _, n := range nodes {
			if n.Name == leader.Name {
				if err := syscall.Kill(n.PID, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		}
		told := len(times) + 1
		eventually(t, "another leader", func() bool {
			return len(takenOver.FindAllString(p.stdout.String(), -1)) >= told
		})
		match := takenOver.FindAllStringSubmatch(p.stdout.String(), -1)[told-1]
		if match[1] == leader.Name {
			t.Errorf("%s was killed and leads again immediately", leader.Name)
		}
		times = append(times, number(t, match))
		if times[len(times)-1] <= failsOverAfter {
			break // a busy machine may need another attempt
		}
		var again demoNode
		if code := ask(t, "POST", api+"/v1/nodes/"+leader.Name+"/restart", &again); code != 200 {
			t.Fatalf("restart %s: %d, want 200", leader.Name, code)
		}
		eventually(t, "all are active again", func() bool {
			var s struct {
				View struct{ Members []struct{ Status string } }
			}
			ask(t, "GET", api+"/v1/status", &s)
			return strings.Count(fmt.Sprint(s.View.Members), "active") == 5
		})
	}
	if times[len(times)-1] > failsOverAfter {
		t.Errorf("next leader after %v ms, want one within %d ms", times, failsOverAfter)
	}
	var s adminapi.Status
	ask(t, "GET", api+"/v1/status", &s)
	if e := s.LastElection; e == nil || e.Cause != "crash" {
		t.Errorf("last election %+v, want crash as its cause: the host refuses the port", e)
	}
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 0 {
		t.Errorf("after SIGINT: exit %d, want 0", code)
	}
}

// TestDemoFaults pauses one node and isolates another through the API.
func TestDemoFaults(t *testing.T) {
	t.Parallel()
	p, api := startDemo(t, "--size", "3")
	var leader struct{ Name string }
	ask(t, "GET", api+"/v1/leader", &leader)
	seen := func(name string) (status string) {
		var s struct {
			View struct {
				Members []struct{ Name, Status string }
			}
		}
		if ask(t, "GET", api+"/v1/nodes/"+leader.Name+"/status", &s) == 200 {
			for _, m := range s.View.Members {
				if m.Name == name {
					status = m.Status
				}
			}
		}
		return status
	}
	victim := map[string]string{"n1": "n2", "n2": "n3", "n3": "n1"}[leader.Name]
	for _, verbs := range [][2]string{{"pause", "resume"}, {"cut", "heal"}, {"kill", "restart"}} {
		var n demoNode
		if code := ask(t, "POST", api+"/v1/nodes/"+victim+"/"+verbs[0], &n); code != 200 {
			t.Fatalf("%s %s: %d %+v, want 200", verbs[0], victim, code, n)
		}
		eventually(t, victim+" unreachable by "+verbs[0], func() bool {
			return seen(victim) == "unreachable"
		})
		if code := ask(t, "POST", api+"/v1/nodes/"+victim+"/"+verbs[1], &n); code != 200 {
			t.Fatalf("%s %s: %d %+v, want 200", verbs[1], victim, code, n)
		}
		eventually(t, victim+" active by "+verbs[1], func() bool { return seen(victim) == "active" })
	}
	match := restarted.FindStringSubmatch(p.stdout.String())
	if match == nil || match[1] != victim || syscall.Kill(number(t, match), 0) != nil {
		t.Errorf("the demo prints\n%s\nwant the new process of %s", &p.stdout, victim)
	}
	var still struct{ Name string }
	if ask(t, "GET", api+"/v1/leader", &still); still != leader {
		t.Errorf("leader %s before and %s after the faults of %s, want no change", leader, still, victim)
	}
}

// TestDemoScripts plays each script to its end.
func TestDemoScripts(t *testing.T) {
	t.Parallel()
	for script, want := range map[string][]string{
		"failover": {"from killing", "until all nodes were active"},
		"partition": {"until its lease ended", "led with authority",
			"from reconnecting until all nodes were active"},
		"rolling": {"n1 until it had left", "n2 until it had left", "n3 until it had left",
			"led with authority"},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := run(t,
				"demo", "--size", "3", "--admin", "127.0.0.1:0", "--script", script)
			if code != 0 || stderr != "" {
				t.Errorf("exit %d, error %q, want 0 and none", code, stderr)
			}
			if strings.Contains(stdout, "curl") || strings.Contains(stdout, "kill -9") {
				t.Errorf("prints\n%s\nwant nothing to do by hand while a script plays", stdout)
			}
			for _, w := range want {
				if !regexp.MustCompile(`(?m)^result     .*` + w + `.*: \d+ ms$`).MatchString(stdout) {
					t.Errorf("prints\n%s\nwant a result with %q", stdout, w)
				}
			}
		})
	}
}

// TestDemoPortTaken checks that a demo whose port is in use reports this and uses another one.
func TestDemoPortTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	p := start(t, "demo", "--size", "1", "--admin", taken)
	p.waitFormed()
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 0 || !strings.Contains(p.stderr.String(), taken+" is in use") ||
		strings.Contains(p.stdout.String(), "http://"+taken) {
		t.Errorf("exit %d, output\n%s\nerror %q, want 0, and another port", code, &p.stdout, &p.stderr)
	}
}

// TestDemoDies checks that the nodes of a killed demo die with it, even a paused one.
func TestDemoDies(t *testing.T) {
	t.Parallel()
	p, api := startDemo(t, "--size", "3")
	var nodes []demoNode
	ask(t, "GET", api+"/v1/nodes", &nodes)
	var paused demoNode
	ask(t, "POST", api+"/v1/nodes/n2/pause", &paused)
	p.signal(syscall.SIGKILL)
	p.wait()
	for _, n := range nodes {
		eventually(t, n.Name+" has ended", func() bool { return syscall.Kill(n.PID, 0) != nil })
	}
}
