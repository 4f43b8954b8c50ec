// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// awaitedLog is a log whose lines are waited for.
type awaitedLog chan string

func (c awaitedLog) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}

// TestALostAdminAPIIsToldOf: the node goes on without it.
func TestALostAdminAPIIsToldOf(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	world := memnet.New()
	node, err := cluster.Start(t.Context(), cluster.Config{Addr: "127.0.0.1:7001", Size: 1},
		cluster.WithLogger(slog.New(slog.DiscardHandler)),
		cluster.WithTransport(func(c transport.Config) (*transport.Mesh, error) {
			return world.Listen(member.Address{Host: "127.0.0.1", Port: 7001}, c)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	log := make(awaitedLog, 2)
	d := &daemon{log: newLogger(log, "json", "info"), listening: make(chan *cluster.Node, 1)}
	d.listening <- node
	l.Close()
	stop := d.serve(l, func() {})
	got := <-log
	stop()
	const want = `"message":"the admin API ended; the node goes on"`
	if !strings.Contains(got, want) || !strings.Contains(got, `"error":"`) || len(log) > 0 {
		t.Errorf("got %q and %d lines more, want one with an error", got, len(log))
	}
}

// TestSystemdThatIsGoneIsToldOf: the one who tells it learns that, and stops.
func TestSystemdThatIsGoneIsToldOf(t *testing.T) {
	var log bytes.Buffer
	s := service{newLogger(&log, "json", "info")}
	t.Setenv("NOTIFY_SOCKET", "")
	if !s.tell(systemd.SdNotifyReady) || log.Len() > 0 {
		t.Errorf("without systemd: got %q, want nothing", &log)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	if s.tell(systemd.SdNotifyReady) {
		t.Error("a socket that is gone: got true")
	}
	if got := log.String(); strings.Count(got, `"message":"systemd is not told"`) != 1 {
		t.Errorf("got %q, want one line", got)
	}
}

// TestATraceThatIsNotWrittenIsToldOf, once a minute.
func TestATraceThatIsNotWrittenIsToldOf(t *testing.T) {
	var log bytes.Buffer
	dir := filepath.Join(t.TempDir(), "traces")
	f, err := newFlight(dir, newLogger(&log, "json", "info"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.recorder.Stop()
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		f.leads = true
		f.saw(cluster.LeaderChanged{Cause: cluster.CauseSilence}, member.Address{}, time.Now())
	}
	const want = `"message":"no trace of the lost leadership was written"`
	if got := log.String(); strings.Count(got, want) != 1 || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q, want one line", got)
	}
}
