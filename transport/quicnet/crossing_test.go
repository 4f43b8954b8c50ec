// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// TestAllPairsCross starts three nodes simultaneously that dial each other. It tries every
// combination of a short or a long delay for the six directions, with one of the nodes
// starting slightly late. All nodes send from the beginning. The test checks that no frame
// is lost, duplicated or out of order, and that each pair keeps one connection.
func TestAllPairsCross(t *testing.T) {
	const directions = 6
	var duplicates uint64
	for long := range 1 << directions {
		late := long % 4 // 3 means that no node is late
		synctest.Test(t, func(t *testing.T) {
			duplicates += crossAll(t, long, late)
		})
	}
	if duplicates < 1<<directions {
		t.Errorf("%d connections crossed in %d runs: the test shows little", duplicates, 1<<directions)
	}
	t.Logf("%d connections crossed", duplicates)
}

// longer exceeds the time for which the node with the greater address yields.
const longer = 7 * time.Millisecond

func crossAll(t *testing.T, long, late int) (duplicates uint64) {
	const frames = 15
	w := newWorld(t)
	at := []member.Address{addrA, addrB, {Host: "10.0.0.3", Port: 7000}}
	direction := 0
	for from := range at {
		for to := range at {
			if from == to {
				continue
			}
			if long>>direction&1 == 1 {
				w.SetPath(at[from], at[to], simnet.Path{Delay: longer})
			}
			direction++
		}
	}
	nodes := make([]*node, len(at))
	for i := range at {
		nodes[i] = w.join(t, at[i], 1, nil)
	}
	done := make(chan error)
	for i, n := range nodes {
		for _, to := range at {
			go func() {
				if i == late {
					time.Sleep(3 * time.Millisecond)
				}
				done <- n.talk(to, frames)
			}()
		}
	}
	for range len(at) * len(at) {
		if err := <-done; err != nil {
			t.Fatalf("long ways %06b, late %d: Send: %v", long, late, err)
		}
	}
	time.Sleep(time.Second) // time limit for leaving a connection
	for i, n := range nodes {
		if got := n.Stats().Connections; got != len(at)-1 {
			t.Errorf("long ways %06b, late %d: node %d has %d connections, want %d",
				long, late, i, got, len(at)-1)
		}
		duplicates += n.Stats().Duplicates
		for k := range transport.Kinds {
			if fault := n.lacks(k, at, frames); fault != "" {
				t.Errorf("long ways %06b, late %d: node %d: %v frames: %s", long, late, i, k, fault)
			}
		}
	}
	return duplicates
}

func (n *node) talk(to member.Address, frames int) error {
	for i := range frames {
		if to == n.self.Address {
			return nil
		}
		frame := fmt.Appendf(nil, "%v %d", n.self.Address, i)
		n.Notify(to, frame)
		for k := transport.System + 1; k < transport.Kinds; k++ {
			err := n.Destination(to).Send(context.Background(), k, frame, mesh.SendMode{})
			if err != nil {
				return err
			}
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// lacks describes what is wrong with the frames of one kind at a node. Each frame must have arrived
// once and in order; if so, lacks returns "".
func (n *node) lacks(k transport.Kind, from []member.Address, frames int) string {
	got := make(map[string][]string)
	for range len(n.frames[k]) {
		sender, number, _ := strings.Cut(string(<-n.frames[k]), " ")
		got[sender] = append(got[sender], number)
	}
	var want []string
	for i := range frames {
		want = append(want, fmt.Sprint(i))
	}
	for _, a := range from {
		if a != n.self.Address && !slices.Equal(got[a.String()], want) {
			return fmt.Sprintf("from %v got %v, want %v", a, got[a.String()], want)
		}
	}
	return ""
}
