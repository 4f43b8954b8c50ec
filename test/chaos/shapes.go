// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

// connected reports whether packets pass from one node to another. Nodes are positions in the
// order of a fault, from 0.
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
	// Each node sees its neighbours: in a cluster of five, each has a different majority.
	"ring": func(nodes, _ int) connected {
		return func(a, b int) bool { return (a+1)%nodes == b || (b+1)%nodes == a }
	},
	// Only the first node sees a majority.
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

// lossRules returns the rules for lost packets on every link, or only on those of the first
// node.
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
