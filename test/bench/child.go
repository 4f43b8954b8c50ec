// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/test/children"
)

// childVariable is the environment variable that makes this program run as a node and
// contains its setup.
const childVariable = "ATHENA_BENCH_NODE"

// setup is the configuration of a node.
type setup struct {
	Config cluster.Config
	Cuts   bool // whether the node can be cut off from others
	Guard  bool // whether the node has a guard
}

// nodeView is a node's view and its time, in nanoseconds of CLOCK_MONOTONIC.
type nodeView struct {
	At     int64
	Active int
	Lost   []string // members that are no longer active, sorted
	Leader string   // the quorate leader; empty if there is none
	Token  uint64
}

func (s nodeView) equal(other nodeView) bool {
	return s.Active == other.Active && s.Leader == other.Leader && s.Token == other.Token &&
		slices.Equal(s.Lost, other.Lost)
}

// line is a line that a node prints. Exactly one field is set.
type line struct {
	View      *nodeView  `json:",omitempty"`
	Answer    *answer    `json:",omitempty"`
	Holding   *holding   `json:",omitempty"`
	Following *following `json:",omitempty"`
	Shard     *shardRun  `json:",omitempty"`
}

// child is the node that this process runs.
type child struct {
	node   *cluster.Node
	groups *election.Groups
	filter packetFilter
	load   load

	mu  sync.Mutex // guards out
	out *json.Encoder
}

// Child runs a node of a measurement if this process was started for that, and returns when the
// measurement is over or the node has failed. Otherwise it returns false.
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

// runNode prints a line when the node is ready, waits for a line, starts the node, prints each
// view, and runs each order. It returns when standard input ends.
func (c *child) runNode(s setup) error {
	if s.Guard {
		if err := cluster.Guard(s.Config); err != nil { // the guard waits there
			return err
		}
	}
	if err := c.printLine(line{View: &nodeView{At: children.ReadMonotonic()}}); err != nil {
		return err
	}
	orders := json.NewDecoder(os.Stdin)
	var start string
	if err := orders.Decode(&start); err != nil {
		return nil // the measurement ended before the start
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
		opts = append(opts, cluster.WithSocket(c.filter.openSocket))
	}
	node, err := cluster.Start(context.Background(), cfg, opts...)
	if err != nil {
		return err
	}
	c.node = node
	go c.runOrders(orders)
	var last nodeView
	active := map[member.Address]bool{} // all members that have been active
	for range node.Events(context.Background()) {
		s := readView(node, active)
		if s.equal(last) {
			continue
		}
		last = s
		if err := c.printLine(line{View: &s}); err != nil {
			return err
		}
	}
	return fmt.Errorf("node stopped: %w", node.Err())
}

// readView returns the current view and adds its active members to the given set.
func readView(node *cluster.Node, active map[member.Address]bool) nodeView {
	s := nodeView{At: children.ReadMonotonic()}
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

// runOrders runs orders until there are no more, and then ends the process.
func (c *child) runOrders(orders *json.Decoder) {
	for first := true; ; first = false {
		var o order
		if err := orders.Decode(&o); err != nil {
			os.Exit(0) // the measurement is over
		}
		if first {
			go c.load.watchArrivals()
		}
		a := c.runOrder(o)
		if err := c.printLine(line{Answer: &a}); err != nil {
			os.Exit(1)
		}
	}
}

// runOrder runs one order.
func (c *child) runOrder(o order) (a answer) {
	var err error
	switch o.Do {
	case doJobs:
		a.Count, a.At = c.openJobs(o.Count)
	case doHold:
		err = c.hold(o.Hold)
	case doLocks:
		a, err = c.takeLocks(o)
	case doShards:
		err = c.runShards(int(o.Count))
	case doGroup:
		err = c.openGroup()
	case doCut:
		c.filter.dropFor(o.Cut)
	default:
		return c.load.runLoad(c.node, o)
	}
	if err != nil {
		a.Fault = err.Error()
	}
	return a
}

// exitOnError ends the process if err is not nil, which also ends the measurement. It handles
// errors that are not the result of an order.
func (c *child) exitOnError(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (c *child) printLine(l line) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Encode(l)
}
