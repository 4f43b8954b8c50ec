// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/test/children"
)

var (
	workers   = flag.Int("workers", 4, "worker processes in TestWorkerProcesses")
	shards    = flag.Int("shards", 24, "shards in TestWorkerProcesses")
	workFor   = flag.Duration("workfor", 0, "how long TestWorkerProcesses kills; 0: each kind once")
	workSeed  = flag.Uint64("workseed", 1, "seed of the kills in TestWorkerProcesses")
	checkHold = 10 * time.Millisecond // between two looks at the term of a shard
)

const workerVariable = "ATHENA_OBSERVER_TEST_WORKER"

type workerTask struct {
	Members []string
	Secret  []byte
	Tape    string
	Shards  int
	Check   time.Duration
}

func init() { //nolint:gochecknoinits // TestMain is in a file for all systems
	if text := os.Getenv(workerVariable); text != "" {
		fmt.Fprintln(os.Stderr, runWorker(text))
		os.Exit(1)
	}
}

// hold is an entry of the tape of a process: it held a shard at least from Begin to Last, in
// nanoseconds of CLOCK_MONOTONIC.
type hold struct{ Shard, Token, Begin, Last int64 }

const maxHolds = 1 << 14

// mapTape maps the tape of a process, which survives its death.
func mapTape(path string) ([]hold, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := maxHolds * int(unsafe.Sizeof(hold{}))
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*hold)(unsafe.Pointer(&b[0])), maxHolds), nil
}

func readMonotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

// runWorker runs shards until the process is killed.
func runWorker(text string) error {
	var task workerTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return err
	}
	tape, err := mapTape(task.Tape)
	if err != nil {
		return err
	}
	ctx := context.Background()
	o, err := Start(ctx, Config{
		Cluster: cluster.DefaultCluster, Members: task.Members, Secret: task.Secret,
	})
	if err != nil {
		return err
	}
	w, err := o.Work(ctx)
	if err != nil {
		return err
	}
	set, err := election.NewShards(w.Records(), "set", task.Shards)
	if err != nil {
		return err
	}
	fmt.Println("works")
	k := &taker{tape: tape, holds: map[*hold]leader.Term{}}
	go k.lookOften(task.Check)
	return set.Run(ctx, k.holdShard)
}

// taker writes the tape of a process.
type taker struct {
	tape []hold

	mu    sync.Mutex
	used  int
	holds map[*hold]leader.Term
}

func (k *taker) holdShard(ctx context.Context, shard int, term leader.Term) error {
	token, err := term.Token().Int64()
	if err != nil {
		return err
	}
	k.mu.Lock()
	h := &k.tape[k.used]
	k.used++
	h.Shard, h.Begin = int64(shard), readMonotonic()
	atomic.StoreInt64(&h.Token, token)
	h.extendTo(term)
	k.holds[h] = term
	k.mu.Unlock()
	<-ctx.Done()
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.holds, h)
	return nil
}

// extendTo extends an entry if the term is still valid.
func (h *hold) extendTo(term leader.Term) {
	if now := readMonotonic(); term.Valid() {
		atomic.StoreInt64(&h.Last, now)
	}
}

// lookOften extends all entries whose terms are valid. One timer for all costs less than one for
// each.
func (k *taker) lookOften(tick time.Duration) {
	for range time.Tick(tick) {
		k.mu.Lock()
		for h, term := range k.holds {
			h.extendTo(term)
		}
		k.mu.Unlock()
	}
}

// workerRun is one process of a worker.
type workerRun struct {
	process *children.Process
	tape    []hold
}

// workerPark runs the nodes and the workers of a test.
type workerPark struct {
	t       *testing.T
	secret  []byte
	dir     string
	addrs   []string
	group   *children.Group
	nodes   []*children.Process
	workers []*workerRun // those that run
	tapes   [][]hold     // of all runs
	ready   int          // lines that processes printed
}

func newWorkerPark(t *testing.T) *workerPark {
	p := &workerPark{t: t, secret: cluster.NewSecret(), dir: t.TempDir(), group: children.NewGroup()}
	t.Cleanup(p.group.KillAll)
	for range 3 {
		p.addrs = append(p.addrs, freeAddress(t))
		p.nodes = append(p.nodes, nil)
	}
	for i := range p.nodes {
		p.startNode(i)
	}
	p.awaitReady(3)
	for range *workers {
		p.startWorker()
	}
	p.awaitReady(*workers)
	return p
}

func (p *workerPark) start(variable string, task any) *children.Process {
	p.t.Helper()
	cmd, err := children.Command(variable, task)
	if err != nil {
		p.t.Fatal(err)
	}
	process, err := p.group.Start(cmd, func([]byte) { p.group.Change(func() { p.ready++ }) })
	if err != nil {
		p.t.Fatal(err)
	}
	return process
}

// awaitReady waits until n more processes are ready.
func (p *workerPark) awaitReady(n int) {
	p.t.Helper()
	err := p.group.WaitUntil(p.t.Context(), time.Minute, func() bool { return p.ready >= n })
	if err != nil {
		p.t.Fatal(err)
	}
	p.group.Change(func() { p.ready -= n })
}

func (p *workerPark) startNode(i int) {
	p.nodes[i] = p.start(nodeVariable, nodeTask{
		Addr: p.addrs[i], Seeds: p.addrs, Secret: p.secret,
		DataDir: filepath.Join(p.dir, fmt.Sprint("n", i)),
	})
}

func (p *workerPark) startWorker() {
	path := filepath.Join(p.dir, fmt.Sprint("tape", len(p.tapes)))
	tape, err := mapTape(path)
	if err != nil {
		p.t.Fatal(err)
	}
	p.tapes = append(p.tapes, tape)
	process := p.start(workerVariable, workerTask{
		Members: p.addrs, Secret: p.secret, Tape: path, Shards: *shards, Check: checkHold,
	})
	p.workers = append(p.workers, &workerRun{process, tape})
}

// countHeld returns how many shards each running worker holds now, and their sum.
func (p *workerPark) countHeld() (each []int, sum int) {
	now := readMonotonic()
	for _, w := range p.workers {
		n := 0
		for i := range w.tape {
			h := &w.tape[i]
			if atomic.LoadInt64(&h.Token) == 0 {
				break
			}
			last := atomic.LoadInt64(&h.Last)
			if now-last < int64(10*checkHold) {
				n++
			}
		}
		each, sum = append(each, n), sum+n
	}
	return each, sum
}

// awaitBalance waits until the workers hold all shards, and their numbers differ by one at most.
func (p *workerPark) awaitBalance(what string, limit time.Duration) {
	p.t.Helper()
	began := time.Now()
	for {
		each, sum := p.countHeld()
		if sum == *shards && slices.Max(each)-slices.Min(each) <= 1 {
			p.t.Logf("balanced %v after %s", time.Since(began).Round(time.Millisecond), what)
			return
		}
		if time.Since(began) > limit {
			p.t.Fatalf("not balanced %v after %s: %v", limit, what, each)
		}
		<-time.After(checkHold)
	}
}

// checkTapes checks that no shard had two owners at an instant, and that each owner had a greater
// token than the one before. It returns how often a shard moved to another process.
func (p *workerPark) checkTapes() (moves int) {
	type owned struct {
		hold
		by int
	}
	of := make([][]owned, *shards)
	for by, tape := range p.tapes {
		for _, h := range tape {
			if h.Last > 0 {
				of[h.Shard] = append(of[h.Shard], owned{h, by})
			}
		}
	}
	for shard, all := range of {
		slices.SortFunc(all, func(a, b owned) int { return int(a.Begin - b.Begin) })
		for i := 1; i < len(all); i++ {
			a, b := all[i-1], all[i]
			if a.Last >= b.Begin || a.Token >= b.Token {
				p.t.Errorf("shard %d: process %d held it until %d with token %d, and %d from %d with %d",
					shard, a.by, a.Last, a.Token, b.by, b.Begin, b.Token)
			}
			if a.by != b.by {
				moves++
			}
		}
	}
	return moves
}

// TestWorkerProcesses kills workers and members of a cluster of three, and starts them again. No
// shard may have two owners at an instant, and the workers must share all shards. With -workfor it
// also checks how long that takes, and that no shard moves needlessly.
func TestWorkerProcesses(t *testing.T) {
	limit := time.Minute
	if *workFor > 0 {
		limit = 3 * time.Second
		checkHold = 50 * time.Millisecond
	}
	p := newWorkerPark(t)
	p.awaitBalance("the start", time.Minute)
	if *workFor > 0 {
		p.logCost(10 * time.Second)
	}
	draw := rand.New(rand.NewPCG(*workSeed, 0))
	before, needed := p.checkTapes(), 0
	for round, began := 0, time.Now(); round < 2 || time.Since(began) < *workFor; round++ {
		if round%2 == 0 {
			i := draw.IntN(len(p.workers))
			each, _ := p.countHeld()
			needed += each[i] + *shards/len(p.workers)
			if _, err := p.workers[i].process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			p.workers = slices.Delete(p.workers, i, i+1)
			p.awaitBalance("the death of a worker", limit)
			p.startWorker()
			p.awaitReady(1)
			p.awaitBalance("the start of a worker", time.Minute)
			continue
		}
		i := draw.IntN(len(p.nodes))
		if _, err := p.nodes[i].Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		p.awaitBalance("the death of a member", limit)
		<-time.After(2 * cluster.DefaultConfig().LeaderTimeout)
		p.awaitBalance("the election", limit)
		p.startNode(i)
		p.awaitReady(1)
	}
	if moves := p.checkTapes() - before; *workFor > 0 && moves > needed {
		t.Errorf("shards moved %d times, want %d at most", moves, needed)
	} else {
		t.Logf("shards moved %d times, %d needed", moves, needed)
	}
}

// logCost logs how much of a core idle workers and members use.
func (p *workerPark) logCost(d time.Duration) {
	p.t.Helper()
	sum := func(all []*children.Process) (cpu, bytes float64) {
		for _, one := range all {
			c, m, err := one.Usage()
			if err != nil {
				p.t.Fatal(err)
			}
			cpu, bytes = cpu+c, bytes+m
		}
		return cpu / 1e9 / float64(len(all)), bytes / (1 << 20) / float64(len(all))
	}
	var works []*children.Process
	for _, w := range p.workers {
		works = append(works, w.process)
	}
	for what, all := range map[string][]*children.Process{"member": p.nodes, "worker": works} {
		before, _ := sum(all)
		<-time.After(d)
		after, mebibytes := sum(all)
		p.t.Logf("a %s uses %.2f %% of a core and %.0f MiB", what, 100*(after-before)/d.Seconds(),
			mebibytes)
	}
}
