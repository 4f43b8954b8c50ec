// SPDX-License-Identifier: Apache-2.0

// Package supervised is the part of a demo that runs in each node process: it reports the status of
// the node to the parent process, and drops packets when the parent orders it.
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

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/quicnet"
)

// Report is a line of JSON that a supervised node writes to standard output. The first report
// contains the address of the admin API, once the node listens. The other reports contain the
// status of the node after each change.
type Report struct {
	Admin  string           `json:"admin,omitempty"`
	Status *adminapi.Status `json:"status,omitempty"`
	// Asked is the number of the last OrderReport received before this status was taken. A process
	// that was paused may first report an older status.
	Asked int `json:"asked,omitempty"`
}

// The orders that a supervised node reads from standard input, one per line. After "cut ADDR ADDR
// ...", the node drops all packets to and from these addresses only. After "heal", it drops no
// packets. "report NUMBER" requests a Report.
const (
	OrderCut    = "cut"
	OrderHeal   = "heal"
	OrderReport = "report"
)

// Parent is the connection of a supervised node to its parent process.
type Parent struct {
	filter *packetFilter

	mu    sync.Mutex
	out   *json.Encoder
	node  *cluster.Node // nil until the node is a member
	asked int           // number of the last OrderReport
}

// NewParent starts reading orders from a reader. The end of the orders means that the parent has
// exited. This process then exits too.
func NewParent(in io.Reader, out io.Writer) *Parent {
	b := &Parent{out: json.NewEncoder(out), filter: &packetFilter{}}
	go func() {
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			words := strings.Fields(lines.Text())
			switch {
			case len(words) > 0 && words[0] == OrderCut:
				b.filter.setBlocked(words[1:])
			case len(words) == 1 && words[0] == OrderHeal:
				b.filter.setBlocked(nil)
			case len(words) == 2 && words[0] == OrderReport:
				b.reportAs(words[1])
			default:
				fmt.Fprintf(os.Stderr, "athena: unknown command on standard input: %q\n", lines.Text())
			}
		}
		os.Exit(cli.ExitFailed)
	}()
	return b
}

// Report reports the status of the node after each change, until the node stops.
func (b *Parent) Report(node *cluster.Node) {
	b.mu.Lock()
	b.node = node
	b.mu.Unlock()
	for range node.Events(context.Background()) {
		b.mu.Lock()
		b.writeStatus()
		b.mu.Unlock()
	}
}

// reportAs reports the status in response to the OrderReport with the given number.
func (b *Parent) reportAs(number string) {
	n, err := strconv.Atoi(number)
	if err != nil {
		fmt.Fprintf(os.Stderr, "athena: invalid command number on standard input: %q\n", number)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = n
	b.writeStatus()
}

// writeStatus reports the status of the node, if it has joined. b.mu must be held.
func (b *Parent) writeStatus() {
	if b.node != nil {
		s := adminapi.StatusOf(b.node.Status(), cli.Build())
		b.write(Report{Status: &s, Asked: b.asked})
	}
}

// write writes one line. b.mu must be held.
func (b *Parent) write(r Report) {
	_ = b.out.Encode(r) // NewParent detects when the parent has exited
}

// Network returns the option for a QUIC network whose packets pass the filter. When the network
// listens, it reports the address of the admin API to the parent.
func (b *Parent) Network(c cluster.Config, adminAddr string) cluster.Option {
	return cluster.WithTransport(func(t transport.Config) (transport.Network, error) {
		tls, _, err := t.TLS()
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
		b.write(Report{Admin: adminAddr})
		b.mu.Unlock()
		return quicnet.New(quicnet.Config{
			Config:   t,
			Conn:     b.filter.wrap(socket),
			Kernel:   true, // probes bypass the filter, but no live node refuses them
			TLS:      tls,
			ResetKey: key,
		})
	})
}
