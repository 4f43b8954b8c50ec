// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/quicnet"
)

// report is a line that a supervised node writes on its standard output: first,
// when it has its port, where its admin API is, then its status after each change.
type report struct {
	Admin  string        `json:"admin,omitempty"`
	Status *admin.Status `json:"status,omitempty"`
}

// The orders that a supervised node reads, a line each: "cut ADDR ADDR ..."
// loses every packet to and from these addresses and no others; "heal" none.
const (
	orderCut  = "cut"
	orderHeal = "heal"
)

// boss is the parent process as a supervised node sees it.
type boss struct {
	mu  sync.Mutex // of out
	out *json.Encoder
	cut *cutter
}

// newBoss begins to take orders from in. When in ends, the parent is gone, and
// this process ends too.
func newBoss(in io.Reader, out io.Writer) *boss {
	b := &boss{out: json.NewEncoder(out), cut: &cutter{}}
	go func() {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			words := strings.Fields(lines.Text())
			switch {
			case len(words) > 0 && words[0] == orderCut:
				b.cut.set(words[1:])
			case len(words) == 1 && words[0] == orderHeal:
				b.cut.set(nil)
			default:
				fmt.Fprintf(os.Stderr, "athena: unknown order %q\n", lines.Text())
			}
		}
		os.Exit(exitFailed)
	}()
	return b
}

// report tells the status of the node after each change, until it ends.
func (b *boss) report(node *cluster.Node) {
	for range node.Events(context.Background()) {
		s := admin.StatusOf(node.Status(), build())
		b.tell(report{Status: &s})
	}
}

func (b *boss) tell(r report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.out.Encode(r) // a parent that is gone is noticed by the end of its orders
}

// network is that of any node, on a socket whose packets can be cut. When it
// listens, it tells where the admin API is.
func (b *boss) network(c cluster.Config, adminAddr string) cluster.Listen {
	return func(t transport.Config) (*transport.Mesh, error) {
		tls, err := quicnet.SecretTLS([][]byte{c.Secret}, c.Cluster, time.Now)
		if err != nil {
			return nil, err
		}
		key, err := quicnet.DeriveResetKey(c.Secret, c.Addr)
		if err != nil {
			return nil, err
		}
		socket, err := quicnet.Listen(c.Addr)
		if err != nil {
			return nil, err
		}
		b.tell(report{Admin: adminAddr})
		return quicnet.New(quicnet.Config{
			Config:   t,
			Conn:     b.cut.through(socket),
			Kernel:   true, // a host that is asked past the cutter tells nothing of one that lives
			TLS:      tls,
			ResetKey: key,
		})
	}
}
