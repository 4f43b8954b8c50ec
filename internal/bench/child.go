// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// childVariable holds the setup of a node, and makes this program one.
const childVariable = "ATHENA_BENCH_NODE"

// setup is what a node starts with.
type setup struct {
	Config cluster.Config
	Cuts   bool // it can be cut off from others
}

// sight is what a node sees, and since when, in nanoseconds of CLOCK_MONOTONIC.
type sight struct {
	At     int64
	Active int
	Lost   []string // were active and are not now, sorted
	Leader string   // of the quorate leader, empty for none
	Token  uint64
}

func (s sight) equal(other sight) bool {
	return s.Active == other.Active && s.Leader == other.Leader && s.Token == other.Token &&
		slices.Equal(s.Lost, other.Lost)
}

// line is what a node says: one of these.
type line struct {
	Sight     *sight     `json:",omitempty"`
	Answer    *answer    `json:",omitempty"`
	Holding   *holding   `json:",omitempty"`
	Following *following `json:",omitempty"`
}

// child is a node.
type child struct {
	node   *cluster.Node
	groups *election.Groups
	cutter cutter
	load   load

	mu  sync.Mutex // of out
	out *json.Encoder
}

// Child is a node of a measurement where this process was started to be one, and
// reports whether it was; it returns when the measurement is over or the node
// failed.
func Child() (is bool, err error) {
	text, is := os.LookupEnv(childVariable)
	if !is {
		return false, nil
	}
	var s setup
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return true, err
	}
	c := &child{out: json.NewEncoder(os.Stdout)}
	return true, c.runNode(s)
}

// runNode says that the node is ready, waits for a line, begins, says each sight, and
// obeys each order. It ends with its standard input.
func (c *child) runNode(s setup) error {
	if err := c.sayLine(line{Sight: &sight{At: readMonotonic()}}); err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return nil // never told to begin
	}
	cfg := s.Config
	cfg.Receiver = receiver.NewMux()
	c.groups = election.NewGroups(cfg.Receiver)
	receiver.Handle(cfg.Receiver, countHandler[Load](&c.load))
	receiver.Handle(cfg.Receiver, countHandler[OwnLoad](&c.load))
	receiver.HandleRequest(cfg.Receiver, echoHandler[Call])
	receiver.HandleRequest(cfg.Receiver, echoHandler[OwnCall])
	receiver.HandleStream(cfg.Receiver, bulkName, c.load.absorbStream)
	var opts []cluster.Option
	if s.Cuts {
		opts = append(opts, cluster.WithSocket(c.cutter.openSocket))
	}
	node, err := cluster.Start(context.Background(), cfg, opts...)
	if err != nil {
		return err
	}
	c.node = node
	go c.obeyOrders(in)
	var last sight
	active := map[member.Address]bool{} // or have been
	for range node.Events(context.Background()) {
		s := seeView(node, active)
		if s.equal(last) {
			continue
		}
		last = s
		if err := c.sayLine(line{Sight: &s}); err != nil {
			return err
		}
	}
	return fmt.Errorf("the node ended: %w", node.Err())
}

// seeView looks at the view. It remembers who was active.
func seeView(node *cluster.Node, active map[member.Address]bool) sight {
	s := sight{At: readMonotonic()}
	view := node.View()
	for _, m := range view.Members {
		if m.Status == member.Active {
			active[m.Address] = true
			s.Active++
		}
	}
	for a := range active {
		if m, _ := view.Member(a); m.Status != member.Active {
			s.Lost = append(s.Lost, a.String())
		}
	}
	slices.Sort(s.Lost)
	if term, ok := node.Leader(); ok {
		s.Leader, s.Token = term.Leader(), term.Token().Version
	}
	return s
}

// obeyOrders carries out orders until there are no more, and ends the process then.
func (c *child) obeyOrders(in io.Reader) {
	orders := json.NewDecoder(in)
	for first := true; ; first = false {
		var o order
		if err := orders.Decode(&o); err != nil {
			os.Exit(0) // the measurement is over
		}
		if first {
			go c.load.watchArrivals()
		}
		a := c.carryOutOrder(o)
		if err := c.sayLine(line{Answer: &a}); err != nil {
			os.Exit(1)
		}
	}
}

// carryOutOrder carries out one order.
func (c *child) carryOutOrder(o order) (a answer) {
	var err error
	switch o.Do {
	case doJobs:
		a.Count, a.At = c.openJobs(o.Count)
	case doHold:
		err = c.holdJob()
	case doLocks:
		a, err = c.takeLocks(o)
	case doGroup:
		err = c.openGroup()
	case doCut:
		c.cutter.setCut(o.Cut)
	default:
		return c.load.runLoad(c.node, o)
	}
	if err != nil {
		a.Fault = err.Error()
	}
	return a
}

// endProcess ends the process, and with that the measurement, where something went wrong
// beside an order.
func (c *child) endProcess(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (c *child) sayLine(l line) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Encode(l)
}

// readMonotonic reads the clock that all processes of a machine share.
func readMonotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(fmt.Sprintf("bench: no monotonic clock: %v", err)) // Linux has it
	}
	return t.Nano()
}
