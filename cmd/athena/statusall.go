// SPDX-License-Identifier: Apache-2.0

// athena status --all: print the views of all nodes side by side.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/athena-go/athena/cmd/athena/internal/ask"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/member"
)

// nodeView is the status of one node, or the reason why it is missing.
type nodeView struct {
	Node   string           `json:"node"`
	Status *adminapi.Status `json:"status"` // null if there is no answer
	Error  string           `json:"error,omitempty"`
	// Differs names the columns in which this node differs from most nodes.
	Differs []string `json:"differs"`
}

// askAll asks the nodes of --admin, if there are several, or else all members through the one node.
func askAll(ctx context.Context, c *adminclient.Client) (ask.Reply, error) {
	views, err := listViews(ctx, c)
	if err != nil {
		return ask.Reply{}, err
	}
	markDifferences(views)
	return ask.Reply{Answer: views, Table: func(w io.Writer) { printViews(w, views) }}, nil
}

func listViews(ctx context.Context, c *adminclient.Client) ([]nodeView, error) {
	var views []nodeView
	var asks []func() (adminapi.Status, error)
	add := func(name string, ask func() (adminapi.Status, error)) {
		views, asks = append(views, nodeView{Node: name, Differs: []string{}}), append(asks, ask)
	}
	nodes := c.EachNode()
	several := len(nodes) > 1
	if several {
		for _, node := range nodes {
			add(node.Address(), func() (adminapi.Status, error) { return node.Status(ctx) })
		}
	} else {
		s, err := c.Status(ctx)
		if err != nil {
			return nil, err
		}
		count := map[string]int{}
		for _, m := range s.View.Members {
			count[m.Name]++
		}
		for _, m := range s.View.Members {
			name := m.Name
			if count[name] > 1 || name == "" {
				name = m.Address.String() // as in GET /v1/nodes
			}
			add(name, func() (adminapi.Status, error) {
				if m.Address == s.Self.Address {
					return s, nil
				}
				return c.NodeStatus(ctx, name)
			})
		}
	}
	var all sync.WaitGroup
	for i, ask := range asks {
		all.Go(func() {
			s, err := ask()
			if err != nil {
				if lost, is := errors.AsType[*adminclient.ConnectionError](err); is {
					err = errors.Unwrap(lost) // the row names the node
				}
				views[i].Error = err.Error()
				return
			}
			views[i].Status = &s
			if several { // instead of the address of its admin API
				views[i].Node = cmp.Or(s.Self.Name, s.Self.Address.String())
			}
		})
	}
	all.Wait()
	if slices.ContainsFunc(views, func(v nodeView) bool { return v.Status != nil }) {
		return views, nil
	}
	_, err := c.Status(ctx) // its error states what to do
	return views, err
}

// viewColumns are the columns of the table that must be the same at all nodes.
var viewColumns = []struct {
	name string
	text func(adminapi.Status) string
}{
	{"LEADER", func(s adminapi.Status) string {
		if l, ok := s.LeaderOf(); ok {
			return cmp.Or(l.Name, l.Address.String())
		}
		return "none"
	}},
	{"TOKEN", func(s adminapi.Status) string { return member.Token{Version: s.Token}.String() }},
	{"VIEW", func(s adminapi.Status) string {
		return fmt.Sprintf("%d.%d", s.View.Version, s.View.Revision)
	}},
	{"ACTIVE", func(s adminapi.Status) string { return fmt.Sprintf("%d/%d", s.Active(), s.Size) }},
	{"CLUSTER", func(s adminapi.Status) string { return cmp.Or(s.ClusterID, "-") }},
	{"DISK", diskText},
	{"BUILD", func(s adminapi.Status) string { return s.Build }},
}

// slowSave is how long a save may take before the disk is shown as slow, as in AthenaSlowSync.
const slowSave = 100 * time.Millisecond

// diskText returns the state of the disk of a node. Answers of earlier versions have no SaveMS.
func diskText(s adminapi.Status) string {
	took := adminapi.DurationOf(s.SaveMS)
	switch {
	case s.NotSaving != "":
		return "not saving"
	case took > slowSave:
		return "slow (" + took.Round(10*time.Millisecond).String() + ")"
	default:
		return "ok"
	}
}

// markDifferences sets Differs of the nodes whose columns differ from those of most nodes. Of
// values that equally many nodes have, the one of the first node counts.
func markDifferences(views []nodeView) {
	for _, column := range viewColumns {
		count, most := map[string]int{}, ""
		for _, v := range views {
			if v.Status != nil {
				count[column.text(*v.Status)]++
			}
		}
		for _, v := range views {
			if v.Status == nil {
				continue
			}
			if text := column.text(*v.Status); count[text] > count[most] {
				most = text
			}
		}
		for i, v := range views {
			if v.Status != nil && column.text(*v.Status) != most {
				views[i].Differs = append(views[i].Differs, strings.ToLower(column.name))
			}
		}
	}
}

// printViews prints a table. A cell that differs from those of most nodes begins with "!".
func printViews(w io.Writer, views []nodeView) {
	fmt.Fprint(w, "NODE\tROLE")
	for _, column := range viewColumns {
		fmt.Fprint(w, "\t", column.name)
	}
	fmt.Fprintln(w)
	for _, v := range views {
		if v.Status == nil {
			// A dash in each column keeps the columns of the rows below in line.
			blank := strings.Repeat("\t-", len(viewColumns))
			fmt.Fprintf(w, "%s\tno answer%s\t%s\n", v.Node, blank, v.Error)
			continue
		}
		fmt.Fprintf(w, "%s\t%s", v.Node, v.Status.Role)
		for _, column := range viewColumns {
			mark := ""
			if slices.Contains(v.Differs, strings.ToLower(column.name)) {
				mark = "!"
			}
			fmt.Fprint(w, "\t", mark, column.text(*v.Status))
		}
		fmt.Fprintln(w)
	}
}
