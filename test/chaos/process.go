// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/athena-go/athena/cluster"
)

// registerBook is the evidence of the register.
const registerBook = "register.jsonl"

// process is a child: a run of a node, or the register.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser // the child ends with it
	ended chan struct{}

	mu   sync.Mutex
	said report
}

// launchProcess starts this program as a child. It dies with the runner.
func launchProcess(role string, task any, log io.Writer) (*process, io.Reader, error) {
	text, err := json.Marshal(task)
	if err != nil {
		return nil, nil, err
	}
	p := &process{cmd: exec.Command("/proc/self/exe"), ended: make(chan struct{})}
	p.cmd.Args[0] = "athena-chaos" // what people see of it
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role, taskVariable+"="+string(text))
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return p, out, p.cmd.Start()
}

// followOutput reads what the node says until it ends.
func (p *process) followOutput(out io.Reader) {
	defer close(p.ended)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			p.handleReport(r)
		}
	}
	_ = p.cmd.Wait() // its end shows in the evidence, where it was not a signal
}

func (p *process) handleReport(r report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = r
}

func (p *process) lastReport() report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said
}

// isAlive is false for no process at all.
func (p *process) isAlive() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// sendSignal does nothing to one that has ended.
func (p *process) sendSignal(s syscall.Signal) {
	if p != nil {
		_ = p.cmd.Process.Signal(s) // fails only for one that has ended
	}
}

// kill ends a process, also one that is stopped, and waits for its end.
func (p *process) kill() {
	if p != nil {
		p.sendSignal(syscall.SIGKILL)
		<-p.ended
	}
}

// processes are the nodes of one run, and the register.
type processes struct {
	o      options
	world  *world
	secret []byte
	names  map[string]string // of the nodes by address
	seeds  []string
	nodes  []*process   // nil before the first start
	starts []int        // of each node
	lost   map[int]bool // nodes that lost their first store
	// first is the place in the world of the first node.
	first int
	// wrongSeeds are addresses of the other cluster, by the node that has one in its list.
	wrongSeeds map[int]string

	register *process
	logs     []*os.File
}

func nodeName(node int) string { return fmt.Sprintf("n%d", node+1) }

// startAll starts the register and every node of one cluster.
func startAll(o options, w *world, first int, secret []byte) (*processes, error) {
	ps := &processes{
		o: o, world: w, first: first, secret: secret, names: map[string]string{},
		nodes: make([]*process, o.nodes), starts: make([]int, o.nodes), lost: map[int]bool{},
		wrongSeeds: map[int]string{},
	}
	for i := range o.nodes {
		ps.names[w.addresses[first+i]] = nodeName(i)
		ps.seeds = append(ps.seeds, w.addresses[first+i])
		log, err := os.OpenFile(filepath.Join(o.out, nodeName(i)+".log"),
			os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return ps, err
		}
		ps.logs = append(ps.logs, log)
	}
	if err := ps.startRegister(); err != nil {
		return ps, err
	}
	for i := range o.nodes {
		if err := ps.startNode(i); err != nil {
			return ps, err
		}
	}
	return ps, nil
}

func (ps *processes) registerSocket() string {
	return filepath.Join(ps.world.dir, "register"+strconv.Itoa(ps.first+1))
}

// startRegister returns when the register takes writes.
func (ps *processes) startRegister() error {
	task := registerTask{Book: filepath.Join(ps.o.out, registerBook), Socket: ps.registerSocket()}
	p, out, err := launchProcess(roleRegister, task, os.Stderr)
	if err != nil {
		return err
	}
	ps.register = p
	ready := bufio.NewReader(out)
	_, err = ready.ReadString('\n')
	go p.followOutput(ready)
	return err
}

// isDaemon: the last of several nodes is the daemon, where there is one.
func (ps *processes) isDaemon(node int) bool {
	return ps.o.athena != "" && node > 0 && node == ps.o.nodes-1
}

// startNode starts a node. A seed that lost its store joins only.
func (ps *processes) startNode(node int) error {
	config := ps.o.config
	config.Addr, config.Name, config.Size = ps.seeds[node], nodeName(node), ps.o.nodes
	config.Seeds, config.Secret, config.JoinOnly = ps.seedsOf(node), ps.secret, ps.lost[node]
	config.DataDir = ps.storeFolder(node)
	ps.starts[node]++
	if ps.isDaemon(node) {
		return ps.startDaemon(node, config)
	}
	task, err := json.Marshal(nodeTask{
		Name: nodeName(node), Config: config, Names: ps.names,
		Book: filepath.Join(ps.o.out, nodeName(node)+".jsonl"), Register: ps.registerSocket(),
		Flood: ps.o.floodTask(node, ps.starts[node]),
	})
	if err != nil {
		return err
	}
	at := place{
		Netns: ps.world.namespacePath(ps.first + node), Cgroup: ps.world.groupOf(ps.first + node),
		Task: string(task),
	}
	p, out, err := launchProcess(roleEnter, at, ps.logs[node])
	if err != nil {
		return err
	}
	ps.nodes[node] = p
	go p.followOutput(out)
	return nil
}

// seedsOf is the list of a node. A wrong seed takes the place of a right one: no list may
// be longer than the cluster is large.
func (ps *processes) seedsOf(node int) []string {
	wrong, ok := ps.wrongSeeds[node]
	if !ok {
		return ps.seeds
	}
	seeds := slices.Clone(ps.seeds)
	seeds[(node+1)%len(seeds)] = wrong
	return seeds
}

func (ps *processes) storeFolder(node int) string {
	return filepath.Join(ps.world.diskFolder(ps.first+node), "store")
}

// findLeader is the node that has authority with the highest token, by what nodes
// said last; -1 for none.
func (ps *processes) findLeader() int {
	leader, token := -1, uint64(0)
	for i, p := range ps.nodes {
		if !p.isAlive() {
			continue
		}
		if r := p.lastReport(); r.Leads && r.Token > token {
			leader, token = i, r.Token
		}
	}
	return leader
}

// areActive reports whether every node said after a time that all are active
// under one quorate leader. It is true for no cluster at all.
func (ps *processes) areActive(after int64) bool {
	if ps == nil {
		return true
	}
	token := ps.nodes[0].lastReport().Token
	for _, p := range ps.nodes {
		r := p.lastReport()
		if !p.isAlive() || r.At < after || r.Token == 0 || r.Token != token || r.Active != len(ps.nodes) {
			return false
		}
	}
	return true
}

// killAll kills everything of a cluster, if there is one.
func (ps *processes) killAll() {
	if ps == nil {
		return
	}
	for _, p := range append(ps.nodes, ps.register) {
		p.kill()
	}
	for _, log := range ps.logs {
		log.Close()
	}
}

// activeBound is L2 of protocol.md section 11, always, once faults have ended.
func activeBound(c cluster.Config) time.Duration {
	c = c.WithDefaults()
	return 2*c.TTLTimeout + 5*c.RetryInterval
}
