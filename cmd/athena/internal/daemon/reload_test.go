// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/spf13/pflag"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// reloading is a node with a configuration file, in memory.
type reloading struct {
	*testing.T
	*daemon
	node *cluster.Node
	file string
	text bytes.Buffer // the log
}

// startReloading starts a node with a file of these lines and with flags.
func startReloading(t *testing.T, lines string, flags ...string) *reloading {
	t.Helper()
	r := &reloading{T: t, file: filepath.Join(t.TempDir(), "athena.yaml")}
	r.write(lines)
	s, f := new(settings.Settings), pflag.NewFlagSet("run", pflag.ContinueOnError)
	s.Define(f)
	if err := f.Parse(append(flags, "--config", r.file, "--log-format", "json")); err != nil {
		t.Fatal(err)
	}
	c, err := s.Read(f, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	r.daemon = newDaemon(Options{Settings: s, Config: c, Flags: f, Log: &r.text})
	world := memnet.New()
	r.node, err = cluster.Start(t.Context(), c, cluster.WithLogger(r.log),
		cluster.WithTransport(func(transport.Config) (transport.Network, error) {
			return world.Listen(member.Address{Host: "127.0.0.1", Port: 7001})
		}))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *reloading) write(lines string) {
	r.Helper()
	const same = "addr: 127.0.0.1:7001\nsize: 1\nmemory: true\ninsecure: true\n"
	if err := os.WriteFile(r.file, []byte(same+lines), 0o600); err != nil {
		r.Fatal(err)
	}
}

// reload reloads a file of these lines and returns what it logs.
func (r *reloading) reload(lines string) string {
	r.Helper()
	r.write(lines)
	before := r.text.Len()
	r.reloadConfig(r.Context(), r.node)
	return r.text.String()[before:]
}

// TestReloadReports checks that a reload reports the keys that it changed, and each changed key of
// the file that a flag or a variable overrides.
func TestReloadReports(t *testing.T) {
	t.Setenv("ATHENA_NAME", "n1")
	synctest.Test(t, func(t *testing.T) {
		r := startReloading(t, "preference: 1\n", "--preference=2")
		defer r.node.Close()
		const overridden = "these keys of the file have changed but have no effect: " +
			"a flag or variable overrides each"
		for _, c := range []struct{ lines, changed, keys string }{
			{"preference: 1\n", "none", ""},
			{"preference: 3\nlabel: zone=a\n", "label", r.file + ":5: preference (--preference)"},
			{"preference: 3\nlabel: zone=a\n", "none", ""},
			{"name: n2\nlabel: zone=b\npreference: 4\n", "label", r.file + ":5: name (ATHENA_NAME), " +
				r.file + ":7: preference (--preference)"},
			{"", "label", ""},
		} {
			got := r.reload(c.lines)
			if !strings.Contains(got, `"changed":"`+c.changed+`"`) ||
				strings.Contains(got, overridden) != (c.keys != "") ||
				!strings.Contains(got, `"keys":"`+c.keys) && c.keys != "" {
				t.Errorf("%q: got %s, want changed %s and the keys %q", c.lines, got, c.changed, c.keys)
			}
		}
	})
}

// TestReloadDuringLabels checks that a request that changes labels does not undo a reload.
func TestReloadDuringLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReloading(t, "label: zone=a\n")
		defer r.node.Close()
		resume := make(chan struct{})
		api := r.guardLabels(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
			labels := maps.Collect(r.node.Status().Self.Labels.All())
			<-resume
			labels["rack"] = "1"
			if err := r.node.SetLabels(q.Context(), labels); err != nil {
				t.Error(err)
			}
		}))
		go api.ServeHTTP(httptest.NewRecorder(),
			httptest.NewRequestWithContext(t.Context(), "POST", "/v1/labels", nil))
		synctest.Wait()
		go r.reload("label: zone=b\n")
		synctest.Wait()
		close(resume)
		synctest.Wait()
		if got := r.node.Status().Self.Labels; got.String() != "zone=b" {
			t.Errorf("labels %v, want zone=b of the reload", got)
		}
	})
}
