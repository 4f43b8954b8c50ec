// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// logLines receives each line of a log.
type logLines chan string

func (c logLines) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}

// TestFailedAdminAPIIsLogged checks that the failure is logged and the node keeps running without
// the API.
func TestFailedAdminAPIIsLogged(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	world := memnet.New()
	node, err := cluster.Start(t.Context(), cluster.Config{Addr: "127.0.0.1:7001", Size: 1},
		cluster.WithLogger(slog.New(slog.DiscardHandler)),
		cluster.WithTransport(func(transport.Config) (transport.Network, error) {
			return world.Listen(member.Address{Host: "127.0.0.1", Port: 7001})
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	log := make(logLines, 2)
	d := &daemon{
		Options: Options{Settings: new(settings.Settings)},
		log:     newLogger(log, "json", slog.LevelInfo), listening: make(chan *cluster.Node, 1),
	}
	d.listening <- node
	l.Close()
	stop := d.serveAdmin(l, func() {})
	got := <-log
	stop()
	const want = `"message":"the admin API failed; the node keeps running"`
	if !strings.Contains(got, want) || !strings.Contains(got, `"error":"`) || len(log) > 0 {
		t.Errorf("got %q and %d more lines, want one with an error", got, len(log))
	}
}
