// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// netnsDir is the folder in which ip keeps named network namespaces.
const netnsDir = "/run/netns"

// port is the port of every node.
const port = 7000

// network is a bridge with a port for each node. The bridge and the nodes are in separate
// namespaces. So rules and interfaces disappear with the namespace of the bridge. No rule of the
// host sees the packets, not even a rule of a container engine (br_netfilter).
type network struct {
	id    string
	nodes int
	rules map[int][]rule // indexed by the fault that added them
	next  int
}

// rule drops a percentage of the packets in one direction of a link.
type rule struct {
	from, to int // nodes, from 0
	percent  int
}

func (n *network) namespaceOf(node int) string { return fmt.Sprintf("%s-%d", n.id, node+1) }
func (n *network) bridgeName() string          { return n.id + "-bridge" }

// addressOf returns the address of a node.
func addressOf(node int) string { return fmt.Sprintf("10.77.0.%d:%d", node+1, port) }

// newNetwork creates the namespaces and links. It runs ip once for each namespace.
func newNetwork(id string, nodes int) (*network, error) {
	n := &network{id: id, nodes: nodes, rules: map[int][]rule{}}
	all := []string{"netns add " + n.bridgeName()}
	for i := range nodes {
		all = append(all, "netns add "+n.namespaceOf(i))
	}
	for i := range nodes {
		all = append(all, fmt.Sprintf("link add name %s netns %s type veth peer name eth0 netns %s",
			portName(i), n.bridgeName(), n.namespaceOf(i)))
	}
	if err := runBatch("", all); err != nil {
		return nil, err
	}
	inBridge := []string{"link add name br0 type bridge", "link set br0 up"}
	for i := range nodes {
		inBridge = append(inBridge, fmt.Sprintf("link set %s master br0 up", portName(i)))
		err := runBatch(n.namespaceOf(i), []string{
			"link set lo up",
			fmt.Sprintf("address add 10.77.0.%d/24 dev eth0", i+1),
			"link set eth0 up",
		})
		if err != nil {
			return nil, err
		}
	}
	return n, runBatch(n.bridgeName(), inBridge)
}

// portName returns the name of a node's port on the bridge.
func portName(node int) string { return fmt.Sprintf("p%d", node+1) }

// runBatch runs a batch of ip commands, in a namespace if one is given.
func runBatch(namespace string, lines []string) error {
	args := []string{"-batch", "-"}
	if namespace != "" {
		args = []string{"-netns", namespace, "-batch", "-"}
	}
	return runWithInput(strings.Join(lines, "\n")+"\n", "ip", args...)
}

// runWithInput runs a command with the given standard input.
func runWithInput(input, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		said := strings.TrimSpace(string(out))
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, said)
	}
	return nil
}

// imposeRules adds rules and returns a function that removes them.
func (n *network) imposeRules(rules []rule) (lift func() error, err error) {
	key := n.next
	n.next++
	n.rules[key] = rules
	lift = func() error {
		delete(n.rules, key)
		return n.applyRules()
	}
	return lift, n.applyRules()
}

// applyRules replaces all rules atomically: nft applies a file as a whole or not at all.
func (n *network) applyRules() error {
	var all []rule
	for key := range n.next {
		all = append(all, n.rules[key]...)
	}
	return runWithInput(formatRules(all), "ip", "netns", "exec", n.bridgeName(), "nft", "-f", "-")
}

// formatRules returns the rules for nft. The table is created before it is deleted because nft
// cannot delete a missing table.
func formatRules(rules []rule) string {
	var b strings.Builder
	b.WriteString("table bridge chaos\ndelete table bridge chaos\ntable bridge chaos {\n" +
		"chain cuts {\ntype filter hook forward priority 0; policy accept;\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "iifname %q oifname %q ", portName(r.from), portName(r.to))
		if r.percent < 100 {
			fmt.Fprintf(&b, "numgen random mod 100 < %d ", r.percent)
		}
		b.WriteString("drop\n")
	}
	b.WriteString("}\n}\n")
	return b.String()
}

// namespacePath returns the file through which a process enters the namespace of a node.
func (n *network) namespacePath(node int) string {
	return filepath.Join(netnsDir,
		n.namespaceOf(node))
}

// connected reports whether packets pass from one node to another. Its arguments are the positions
// of the nodes in the order of the fault, from 0.
type connected func(from, to int) bool

// shapes are the network faults that cut links, by kind. arg is the Arg of the fault.
var shapes = map[string]func(nodes, arg int) connected{
	"isolate":     func(_, _ int) connected { return func(a, b int) bool { return a != 0 && b != 0 } },
	"flap":        func(_, _ int) connected { return func(a, b int) bool { return a != 0 && b != 0 } },
	"deaf":        func(_, _ int) connected { return func(_, b int) bool { return b != 0 } },
	"mute":        func(_, _ int) connected { return func(a, _ int) bool { return a != 0 } },
	"cut link":    func(_, _ int) connected { return func(a, b int) bool { return a+b != 1 } },
	"cut one way": func(_, _ int) connected { return func(a, b int) bool { return a != 0 || b != 1 } },
	// The first arg nodes are on one side.
	"split": func(_, arg int) connected {
		return func(a, b int) bool { return (a < arg) == (b < arg) }
	},
	// No side has a majority.
	"shatter": func(nodes, _ int) connected {
		side := nodes / 2
		return func(a, b int) bool { return a/side == b/side }
	},
	// Two halves are connected only through the first node.
	"bridge": func(nodes, _ int) connected {
		half := nodes/2 + 1
		return func(a, b int) bool { return a == 0 || b == 0 || (a < half) == (b < half) }
	},
	// Each node reaches only its neighbours: in a cluster of five, each reaches a different majority.
	"ring": func(nodes, _ int) connected {
		return func(a, b int) bool { return (a+1)%nodes == b || (b+1)%nodes == a }
	},
	// Only the first node reaches a majority.
	"hub": func(_, _ int) connected { return func(a, b int) bool { return a == 0 || b == 0 } },
}

// cutRules returns the rules of a shape for nodes in the given order.
func cutRules(order []int, pass connected) []rule {
	var rules []rule
	for a, from := range order {
		for b, to := range order {
			if a != b && !pass(a, b) {
				rules = append(rules, rule{from, to, 100})
			}
		}
	}
	return rules
}

// lossRules returns the rules that drop packets on every link, or only on those of the first node.
func lossRules(order []int, percent int, onlyFirst bool) []rule {
	var rules []rule
	for _, from := range order {
		for _, to := range order {
			if from != to && (!onlyFirst || from == order[0] || to == order[0]) {
				rules = append(rules, rule{from, to, percent})
			}
		}
	}
	return rules
}
