// SPDX-License-Identifier: Apache-2.0

// Package supervised is the side of a demo that runs in each of its nodes: it reports the
// state of the node to the parent process, and takes orders to lose packets.
package supervised

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/quicnet"
)

// Report is a line that a supervised node writes on its standard output: first,
// when it has its port, where its admin API is, then its status after each change.
type Report struct {
	Admin  string           `json:"admin,omitempty"`
	Status *adminapi.Status `json:"status,omitempty"`
	// Asked is the number of the last orderReport before this status. A process that
	// stood still meanwhile may tell what was so before.
	Asked int `json:"asked,omitempty"`
}

// The orders that a supervised node reads, a line each: "cut ADDR ADDR ..."
// loses every packet to and from these addresses and no others; "heal" none; "report
// NUMBER" tells the status as it is.
const (
	OrderCut    = "cut"
	OrderHeal   = "heal"
	OrderReport = "report"
)

// Parent is the parent process as a supervised node sees it.
type Parent struct {
	cut *cutter

	mu    sync.Mutex
	out   *json.Encoder
	node  *cluster.Node // nil until it is a member
	asked int           // of the last orderReport
}

// NewParent begins to take orders from in. When in ends, the parent is gone, and
// this process ends too.
func NewParent(in io.Reader, out io.Writer) *Parent {
	b := &Parent{out: json.NewEncoder(out), cut: &cutter{}}
	go func() {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			words := strings.Fields(lines.Text())
			switch {
			case len(words) > 0 && words[0] == OrderCut:
				b.cut.set(words[1:])
			case len(words) == 1 && words[0] == OrderHeal:
				b.cut.set(nil)
			case len(words) == 2 && words[0] == OrderReport:
				b.answer(words[1])
			default:
				fmt.Fprintf(os.Stderr, "athena: unknown order %q\n", lines.Text())
			}
		}
		os.Exit(cli.ExitFailed)
	}()
	return b
}

// Report tells the status of the node after each change, until it ends.
func (b *Parent) Report(node *cluster.Node) {
	b.mu.Lock()
	b.node = node
	b.mu.Unlock()
	for range node.Events(context.Background()) {
		b.mu.Lock()
		b.tellStatus()
		b.mu.Unlock()
	}
}

// answer tells the status to who has asked for it by a number.
func (b *Parent) answer(number string) {
	n, err := strconv.Atoi(number)
	if err != nil {
		fmt.Fprintf(os.Stderr, "athena: no number of an order: %q\n", number)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = n
	b.tellStatus()
}

// tellStatus tells how the node is, where there is one. The caller holds mu.
func (b *Parent) tellStatus() {
	if b.node != nil {
		s := adminapi.StatusOf(b.node.Status(), cli.Build())
		b.tell(Report{Status: &s, Asked: b.asked})
	}
}

// tell writes one line. The caller holds mu.
func (b *Parent) tell(r Report) {
	_ = b.out.Encode(r) // a parent that is gone is noticed by the end of its orders
}

// Network is the network of any node, on a socket whose packets can be cut. When it
// listens, it reports where the admin API is.
func (b *Parent) Network(c cluster.Config, adminAddr string) cluster.Option {
	return cluster.WithTransport(func(t transport.Config) (transport.Network, error) {
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
		b.mu.Lock()
		b.tell(Report{Admin: adminAddr})
		b.mu.Unlock()
		return quicnet.New(quicnet.Config{
			Config:   t,
			Conn:     b.cut.through(socket),
			Kernel:   true, // a host that is asked past the cutter tells nothing of one that lives
			TLS:      tls,
			ResetKey: key,
		})
	})
}
