// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/lowest"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// exported is a metric as read from a scrape.
type exported struct {
	help, kind string
	labels     map[string]bool // labels of the samples, except cluster and le
	samples    map[string]float64
}

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_]+)(?:\{(.*)\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
)

// scrape returns the athena_ metrics of a handler by name. The samples of a histogram are listed
// under its name.
func scrape(t testing.TB, h http.Handler) map[string]*exported {
	t.Helper()
	w := ask(h, "GET", "/metrics")
	if w.Code != http.StatusOK {
		t.Fatalf("GET /metrics: got %d, %s", w.Code, w.Body)
	}
	all := map[string]*exported{}
	lines := bufio.NewScanner(w.Body)
	for lines.Scan() {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "# HELP athena_"); ok {
			name, help, _ := strings.Cut("athena_"+rest, " ")
			all[name] = &exported{help: help, labels: map[string]bool{}, samples: map[string]float64{}}
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# TYPE athena_"); ok {
			name, kind, _ := strings.Cut("athena_"+rest, " ")
			all[name].kind = kind
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil || !strings.HasPrefix(m[1], "athena_") {
			continue
		}
		e := all[familyOf(all, m[1])]
		if e == nil {
			t.Fatalf("%q has no # HELP", line)
		}
		for _, l := range labelPair.FindAllStringSubmatch(m[2], -1) {
			if l[1] != "cluster" && l[1] != "le" {
				e.labels[l[1]] = true
			}
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		e.samples[m[1]+"{"+m[2]+"}"] = v
	}
	return all
}

// familyOf returns the name of the metric that a sample belongs to.
func familyOf(all map[string]*exported, sample string) string {
	for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(sample, suffix); ok && all[name] != nil {
			return name
		}
	}
	return ""
}

type ping struct{ N int }

// running returns the metrics of an in-memory node that has sent and received requests, and has
// seen a change of leader.
func running(t *testing.T) map[string]*exported {
	t.Helper()
	var seen map[string]*exported
	synctest.Test(t, func(t *testing.T) {
		net, nodes := threeNodes(t)
		leader := slices.IndexFunc(nodes, func(n *cluster.Node) bool {
			term, ok := n.Leader()
			return ok && term.Valid()
		})
		stays, ends := nodes[(leader+1)%3], nodes[leader]
		for _, to := range nodes {
			_, err := cluster.Request[ping](t.Context(), stays, to.Self().Address, ping{1})
			if err != nil {
				t.Errorf("Request: %v", err)
			}
		}
		for _, n := range nodes { // the others notice nothing but its silence
			net.Cut(ends.Self().Address, n.Self().Address)
		}
		if err := ends.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		seen = scrape(t, admin.New(stays, "v0"))
		for _, n := range nodes {
			_ = n.Close()
		}
	})
	return seen
}

// threeNodes starts three members of one cluster.
func threeNodes(t *testing.T) (net *memnet.Network, nodes []*cluster.Node) {
	t.Helper()
	net = memnet.New()
	var seeds []string
	for i := range 3 {
		seeds = append(seeds, fmt.Sprintf("127.0.0.1:%d", 7001+i))
	}
	for i := range 3 {
		mux := receiver.NewMux()
		receiver.HandleRequest(mux,
			func(_ context.Context, _ member.Member, p ping) (ping, error) { return p, nil },
			receiver.Named("ping"))
		config := cluster.Config{
			Addr: seeds[i], Size: 3, Seeds: seeds, Receiver: mux, Cluster: "orders",
		}
		listen := func(transport.Config) (transport.Network, error) {
			return net.Listen(at(t, seeds[i]))
		}
		n, err := cluster.Start(t.Context(), config, cluster.WithTransport(listen),
			cluster.WithClock(time.Now), cluster.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		if err := n.WaitActive(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
	}
	return net, nodes
}

// quiet lists the metrics that have no samples in a healthy in-memory cluster.
var quiet = []string{"athena_tls_cert_expiry_timestamp_seconds", "athena_group_leader",
	"athena_job_has_leader", "athena_lock_wait_seconds"}

// metricLines returns the lines of docs/metrics.md by metric name.
func metricLines(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	line := regexp.MustCompile("(?m)^- `(athena_[a-z_]+)[{`].*$")
	for _, m := range line.FindAllStringSubmatch(string(page), -1) {
		lines[m[1]] = m[0]
	}
	return lines
}

// TestMetricsAreDocumented checks that docs/metrics.md lists exactly the exported metrics, with
// their labels, kind and help.
func TestMetricsAreDocumented(t *testing.T) {
	seen, lines := running(t), metricLines(t)
	certified := leading(t)
	certified.CertificateExpires = time.Unix(1_800_000_000, 0)
	full := scrape(t, admin.New(certified, "v0", admin.WithGroups(oneGroup(t), nil)))
	for _, name := range quiet {
		if seen[name] = full[name]; seen[name] == nil {
			delete(seen, name) // TestFamiliesAreDocumented checks it
			delete(lines, name)
		}
	}
	for name, e := range seen {
		labels := slices.Sorted(maps.Keys(e.labels))
		metric := name
		if len(labels) > 0 {
			metric += "{" + strings.Join(labels, ",") + "}"
		}
		want := fmt.Sprintf("- `%s` %s: %s", metric, e.kind, e.help)
		if lines[name] != want {
			t.Errorf("docs/metrics.md has for %s\n%s\nwant\n%s", name, lines[name], want)
		}
		delete(lines, name)
	}
	for name := range lines {
		t.Errorf("%s is in docs/metrics.md, but no node exports it", name)
	}
}

// alone implements election.Peers for one member.
type alone struct{}

func (alone) Self() (string, uint64)      { return "a", 1 }
func (alone) Members() []string           { return []string{"a"} }
func (alone) Send(string, lowest.Message) {}

// oneGroup returns an open group without a leader.
func oneGroup(t *testing.T) func() []election.Group {
	c, _, err := election.Over(alone{}, "delivery", election.Options{Strategy: election.Lowest})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return func() []election.Group { return []election.Group{{Name: "delivery", Candidate: c}} }
}

func TestE08MetricOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := admin.New(leading(t), "v0", admin.WithGroups(oneGroup(t), nil))
		for _, want := range []float64{0, 1} {
			e := scrape(t, h)["athena_group_leader"]
			sample := `athena_group_leader{cluster="orders",group="delivery"}`
			if got, ok := e.samples[sample]; !ok || got != want {
				t.Errorf("athena_group_leader: got %v, want %v for the group", e.samples, want)
			}
			select {
			case <-time.After(time.Minute): // meanwhile the group elects a leader
			case <-t.Context().Done():
			}
		}
	})
}

// TestMetricsAfterFailover checks values after a change of leader.
func TestMetricsAfterFailover(t *testing.T) {
	seen := running(t)
	sum := func(name string, pairs ...string) (total float64) {
		for sample, v := range seen[name].samples {
			has := func(p string) bool { return strings.Contains(sample, p) }
			if !slices.ContainsFunc(pairs, func(p string) bool { return !has(p) }) {
				total += v
			}
		}
		return total
	}
	for _, c := range []struct {
		want  float64
		name  string
		pairs []string
	}{
		{1, "athena_leader_changes_total", []string{`cause="start"`}},
		{1, "athena_leader_changes_total", []string{`cause="silence"`}},
		{1, "athena_election_duration_seconds", []string{"_count"}},
		{1, "athena_has_quorum", nil},
		{2, "athena_members", []string{`status="active"`}},
		{2, "athena_token", nil},
		{3, "athena_requests_total", []string{`type="ping"`, `code="ok"`}},
		{1, "athena_receiver_duration_seconds", []string{"_count", `type="ping"`}},
		{1, "athena_member_transitions_total", []string{`from="active"`, `to="unreachable"`}},
		{1, "athena_insecure", nil},
		{1, "athena_build_info", []string{`cluster="orders"`, `version="v0"`}},
	} {
		if got := sum(c.name, c.pairs...); got != c.want {
			t.Errorf("%s%q: got %v, want %v of\n%v", c.name, c.pairs, got, c.want, seen[c.name].samples)
		}
	}
	for _, name := range []string{"athena_leaderless_seconds_total", "athena_store_sync_seconds",
		"athena_heartbeats_missed_total", "athena_transport_bytes_total", "athena_votes_total"} {
		if sum(name) == 0 {
			t.Errorf("%s: got only 0: %v", name, seen[name].samples)
		}
	}
}

// TestLabelsAreBounded checks that only members appear in labels.
func TestLabelsAreBounded(t *testing.T) {
	f := leading(t)
	stranger := at(t, "10.9.9.9:1")
	f.Counts.Missed = map[member.Address]uint64{stranger: 5}
	f.Peers = []transport.PeerState{{Address: stranger, Connected: true, RTT: 1}}
	for name, e := range scrape(t, admin.New(f, "")) {
		for sample := range e.samples {
			if strings.Contains(sample, stranger.Host) {
				t.Errorf("%s has %s", name, sample)
			}
		}
	}
}

// TestMetricsAreWhatPrometheusReads checks the text with promtool.
func TestMetricsAreWhatPrometheusReads(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: make tools")
	}
	var text []byte
	synctest.Test(t, func(t *testing.T) {
		_, nodes := threeNodes(t)
		text = ask(admin.New(nodes[0], "v0"), "GET", "/metrics").Body.Bytes()
		for _, n := range nodes {
			_ = n.Close()
		}
	})
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		// promtool also criticizes the names of the Go runtime's metrics
		if strings.HasPrefix(line, "athena_") || strings.Contains(line, "error") {
			t.Errorf("promtool check metrics: %s", line)
		}
	}
}

// TestMetricLabelsAreEscaped checks that a line stays one sample if the name of the cluster has
// quotes, backslashes or line ends.
func TestMetricLabelsAreEscaped(t *testing.T) {
	f := leading(t)
	f.Cluster = "a\"b\\c\nd"
	got := ask(admin.New(f, "v0"), "GET", "/metrics").Body.String()
	if want := "\nathena_drained{cluster=\"a\\\"b\\\\c\\nd\"} 0\n"; !strings.Contains(got, want) {
		t.Errorf("GET /metrics: got\n%s\nwant the line %s", got, want)
	}
}

// TestMetricOfASlowHandler checks that each type has a sample of its longest running handler.
func TestMetricOfASlowHandler(t *testing.T) {
	f := leading(t)
	f.Receivers = append(f.Receivers, receiver.Stats{Event: "C"})
	samples := scrape(t, admin.New(f, ""))["athena_receiver_running_seconds"].samples
	for label, want := range map[string]float64{"A": 6.5, "B": 6, "C": 0} {
		sample := fmt.Sprintf(`athena_receiver_running_seconds{cluster="orders",type="%s"}`, label)
		if got, ok := samples[sample]; !ok || got != want {
			t.Errorf("%s: got %v, %t, want %v", sample, got, ok, want)
		}
	}
}
