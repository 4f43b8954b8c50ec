// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// logLines receives each line of a log.
type logLines chan string

func (c logLines) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}

// TestStopWaitsForWork checks that a node that is stopped waits for the holders of its locks, but
// leaves before a supervisor kills it.
func TestStopWaitsForWork(t *testing.T) {
	for _, c := range []struct{ work, want time.Duration }{
		{5 * time.Second, 5 * time.Second},
		{time.Minute, 17 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			mux, world := receiver.NewMux(), memnet.New()
			cfg := cluster.Config{Addr: "127.0.0.1:7001", Size: 1, Receiver: mux}
			node, err := cluster.Start(t.Context(), cfg, cluster.WithClock(time.Now),
				cluster.WithLogger(slog.New(slog.DiscardHandler)),
				cluster.WithTransport(func(transport.Config) (transport.Network, error) {
					return world.Listen(member.Address{Host: "127.0.0.1", Port: 7001})
				}))
			if err != nil {
				t.Fatal(err)
			}
			l, err := lock.New(node.Records(), "x")
			if err != nil {
				t.Fatal(err)
			}
			held := make(chan struct{})
			go l.Do(t.Context(), func(ctx context.Context, _ leader.Term) error {
				close(held)
				<-ctx.Done()
				time.Sleep(c.work)
				return nil
			})
			<-held
			log := make(logLines, 2)
			d := &daemon{
				Options: Options{Config: cfg.WithDefaults()},
				log:     newLogger(log, "json", slog.LevelInfo), groups: election.NewGroups(mux),
			}
			began := time.Now()
			err = d.leave(node)
			if took := time.Since(began); err != nil || took < c.want || took > c.want+time.Second {
				t.Errorf("work of %v: left after %v with %v, want nil after %v", c.work, took, err, c.want)
			}
			<-log // leaving the cluster
			const want = `"message":"left before the work of all callers had ended"`
			if late := len(log) > 0; late != (c.work > c.want) || late && !strings.Contains(<-log, want) {
				t.Errorf("work of %v: logged a late end: %t", c.work, late)
			}
			time.Sleep(time.Minute)
		})
	}
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

// TestLogTimes checks that the times of lines have milliseconds in both formats.
func TestLogTimes(t *testing.T) {
	for format, want := range map[string]string{
		"json":    `"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)"`,
		"console": `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} INF started`,
	} {
		var log strings.Builder
		newLogger(&log, format, slog.LevelInfo).Info("started")
		if !regexp.MustCompile(want).MatchString(log.String()) {
			t.Errorf("%s: got %q, want a match of %s", format, log.String(), want)
		}
	}
}
