// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminclient"
)

// thisProgram is the path of the running program, of a child too.
const thisProgram = "/proc/self/exe"

// The evidence files of the register, and of what the runner did to one cluster.
const (
	registerEvidence = "register.jsonl"
	runnerEvidence   = "runner.jsonl"
)

// process is a child process: a run of a node, or the register.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser // the child ends when this is closed
	ended chan struct{}

	mu     sync.Mutex
	latest report
}

// launchProcess starts this program as a child. The child is killed when the runner ends.
func launchProcess(role string, task any, log io.Writer) (*process, io.Reader, error) {
	text, err := json.Marshal(task)
	if err != nil {
		return nil, nil, err
	}
	p := &process{cmd: exec.Command(thisProgram), ended: make(chan struct{})}
	p.cmd.Args[0] = "athena-chaos" // name of the child in process listings
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

// followOutput reads the reports of the node until it ends.
func (p *process) followOutput(out io.Reader) {
	defer close(p.ended)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			p.handleReport(r)
		}
	}
	_ = p.cmd.Wait() // the evidence contains the cause, unless a signal ended the process
}

func (p *process) handleReport(r report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest = r
}

func (p *process) lastReport() report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest
}

// isAlive reports whether the process exists and has not ended.
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

// sendSignal sends a signal. It does nothing if the process has ended.
func (p *process) sendSignal(s syscall.Signal) {
	if p != nil {
		_ = p.cmd.Process.Signal(s) // fails only if it has ended
	}
}

// kill kills a process, even a stopped one, and waits until it has ended.
func (p *process) kill() {
	if p != nil {
		p.sendSignal(syscall.SIGKILL)
		<-p.ended
	}
}

// processes are the nodes and the register of one cluster.
type processes struct {
	o      options
	world  *world
	secret []byte
	names  map[string]string // names of the nodes, by address
	seeds  []string
	nodes  []*process   // nil before the first start
	starts []int        // number of starts of each node
	lost   map[int]bool // nodes that lost their first store
	// first is the number of the first node in the world.
	first int
	// isPrevious reports, by node, whether it runs the program of the release before.
	isPrevious []bool
	// wrongSeeds maps each node with a wrong seed to that seed, an address of the other cluster.
	wrongSeeds map[int]string

	register *process
	notes    *evidenceFile // what the runner did to this cluster
	logs     []*os.File
}

func nodeName(node int) string { return fmt.Sprintf("n%d", node+1) }

// startAll starts the register and every node of one cluster.
func startAll(o options, w *world, first int, secret []byte) (*processes, error) {
	ps := &processes{
		o: o, world: w, first: first, secret: secret, names: map[string]string{},
		nodes: make([]*process, o.nodes), starts: make([]int, o.nodes), lost: map[int]bool{},
		wrongSeeds: map[int]string{}, isPrevious: make([]bool, o.nodes),
	}
	for i := range ps.isPrevious {
		ps.isPrevious[i] = o.previous != ""
	}
	if o.history != "" {
		if err := os.MkdirAll(o.history, 0o755); err != nil {
			return ps, err
		}
	}
	var err error
	ps.notes, err = openEvidence(filepath.Join(o.out, runnerEvidence), evidence{Node: "runner"})
	if err != nil {
		return ps, err
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

// startRegister starts the register and returns when it accepts connections.
func (ps *processes) startRegister() error {
	task := registerTask{
		Evidence: filepath.Join(ps.o.out, registerEvidence), Socket: ps.registerSocket(),
	}
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

// isDaemon reports whether a node is a daemon.
func (ps *processes) isDaemon(node int) bool {
	return ps.o.athena != "" && node > 0 && node >= ps.o.nodes-ps.o.daemons
}

// programOf returns the program of a node that is not a daemon.
func (ps *processes) programOf(node int) string {
	if ps.isPrevious[node] {
		return ps.o.previous
	}
	return thisProgram
}

// configOf returns the configuration of a node. A seed that lost its store may only join.
func (ps *processes) configOf(node int) cluster.Config {
	config := ps.o.config
	config.Addr, config.Name, config.Size = ps.seeds[node], nodeName(node), ps.o.nodes
	config.Seeds, config.Secret, config.JoinOnly = ps.seedsOf(node), ps.secret, ps.lost[node]
	config.DataDir = ps.storeFolder(node)
	if ps.world.names != nil {
		config.Addr, config.Advertise = addressOf(ps.first+node), ps.seeds[node]
	}
	if ps.o.witness {
		config.Preference, config.HandOverToPreferred = preferenceOf(node), ps.o.back
	}
	return config
}

// randOf returns the source of what is drawn for the latest run of a node.
func (ps *processes) randOf(node int) *rand.Rand {
	return rand.New(rand.NewPCG(ps.o.seed, uint64(ps.first+node)<<32+uint64(ps.starts[node])))
}

// isGuarded reports whether the latest run of a node has a guard.
func (ps *processes) isGuarded(node int) bool {
	return ps.o.guards && ps.randOf(node).IntN(2) == 0
}

// clockOf returns the seconds by which the clocks of the latest run of a node are ahead: up to a
// month in a schedule.
func (ps *processes) clockOf(node int) int64 {
	if ps.o.nemesis == 0 || !canShiftClocks() {
		return 0
	}
	return ps.randOf(node).Int64N(30 * 24 * 60 * 60)
}

// startNode starts a node.
func (ps *processes) startNode(node int) error {
	config := ps.configOf(node)
	ps.starts[node]++
	if ps.isDaemon(node) {
		return ps.startDaemon(node, config)
	}
	task := nodeTask{
		Name: nodeName(node), Config: config, Names: ps.names,
		Evidence: filepath.Join(ps.o.out, nodeName(node)+".jsonl"), Register: ps.registerSocket(),
		TLS: ps.o.tls, Guard: ps.isGuarded(node), Flood: ps.o.floodTask(node, ps.starts[node]),
		History: ps.historyFile(node),
	}
	p, err := launchNode(task, place{
		Netns: ps.world.namespacePath(ps.first + node), Cgroup: ps.world.groupOf(ps.first + node),
		Program: ps.programOf(node), Role: roleNode, Names: ps.world.namesSocket(),
		Clock: ps.clockOf(node),
	}, ps.logs[node])
	if err != nil {
		return err
	}
	ps.nodes[node] = p
	return nil
}

// launchNode starts a process with the task of a node at a place.
func launchNode(task nodeTask, at place, log io.Writer) (*process, error) {
	text, err := json.Marshal(task)
	if err != nil {
		return nil, err
	}
	at.Task = string(text)
	p, out, err := launchProcess(roleEnter, at, log)
	if err != nil {
		return nil, err
	}
	go p.followOutput(out)
	return p, nil
}

// seedsOf returns the seeds of a node. A wrong seed replaces a right one, because the list must
// not be longer than the size of the cluster.
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

// historyFile returns the file for the steps of the latest start of a node, or "".
func (ps *processes) historyFile(node int) string {
	if ps.o.history == "" {
		return ""
	}
	return filepath.Join(ps.o.history, fmt.Sprintf("%s.%d.json", nodeName(node), ps.starts[node]))
}

// findLeader returns the node with authority and the highest token according to the latest reports,
// or -1.
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

// areActive reports whether, since a given time, every node has reported that all are active under
// one quorate leader. It returns true if ps is nil.
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

// killAll kills all processes of a cluster. ps may be nil.
func (ps *processes) killAll() {
	if ps == nil {
		return
	}
	for node := range ps.nodes {
		_ = ps.killNode(node)
	}
	ps.register.kill()
	for _, log := range ps.logs {
		log.Close()
	}
	if ps.notes != nil {
		ps.notes.file.Close()
	}
}

// activeBound is the bound of invariant L2 (protocol.md section 11) after faults have ended.
func activeBound(c cluster.Config) time.Duration {
	c = c.WithDefaults()
	return 2*c.TTLTimeout + 5*c.RetryInterval
}

// daemonTick is the interval at which the runner polls a daemon.
const daemonTick = 20 * time.Millisecond

// startDaemon starts a node as "athena run". The runner gets its evidence from the admin API, over
// a socket in the file system, which network faults do not affect.
func (ps *processes) startDaemon(node int, c cluster.Config) error {
	if err := os.WriteFile(ps.secretFile(), c.Secret, 0o600); err != nil {
		return err
	}
	at := ps.placeDaemon(node, "run", c)
	at.History = ps.historyFile(node)
	client, err := adminclient.New("unix:" + ps.adminSocket(node))
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

func (ps *processes) secretFile() string { return filepath.Join(ps.world.dir, "secret") }

func (ps *processes) adminSocket(node int) string {
	return filepath.Join(ps.world.dir, "admin"+strconv.Itoa(node+1))
}

// placeDaemon returns the place and command line of a daemon, or of another command with its flags.
func (ps *processes) placeDaemon(node int, verb string, c cluster.Config) place {
	at := place{
		Netns: ps.world.namespacePath(ps.first + node), Cgroup: ps.world.groupOf(ps.first + node),
		Clock: ps.clockOf(node),
		Daemon: []string{
			ps.o.athena, verb, "--addr", c.Addr, "--name", c.Name, "--size", strconv.Itoa(c.Size),
			"--seeds", strings.Join(c.Seeds, ","), "--join-only=" + strconv.FormatBool(c.JoinOnly),
			"--data-dir", c.DataDir, "--secret-file", ps.secretFile(),
			"--admin", "unix:" + ps.adminSocket(node),
			"--heartbeat-interval", c.HeartbeatInterval.String(),
			"--heartbeat-timeout", c.HeartbeatTimeout.String(),
			"--leader-timeout", c.LeaderTimeout.String(),
			"--lease-timeout", c.WithDefaults().LeaseTimeout.String(),
			"--ttl-timeout", c.TTLTimeout.String(), "--retry-interval", c.RetryInterval.String(),
		},
	}
	if ps.o.tls {
		at.Daemon = append(at.Daemon, "--transport", "tls")
	}
	return at
}

// announceDaemon announces the end of a killed daemon, as its supervisor would.
func (ps *processes) announceDaemon(node int) error {
	if !ps.isDaemon(node) || !ps.isGuarded(node) {
		return nil
	}
	at := ps.placeDaemon(node, "obituary", ps.configOf(node))
	p, out, err := launchProcess(roleEnter, at, ps.logs[node])
	if err == nil {
		go p.followOutput(out)
	}
	return err
}

// askDaemon records the authority that a daemon reports, until the daemon ends.
func (p *process) askDaemon(client *adminclient.Client, b *evidenceFile) {
	defer b.file.Close()
	var term time.Time // beginning of the term in the last line
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
