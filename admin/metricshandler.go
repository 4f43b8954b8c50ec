// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// maxScrapes limits the number of concurrent scrapes.
const maxScrapes = 4

// metricKind is the type of a metric in the Prometheus text format.
type metricKind string

const (
	gauge   metricKind = "gauge"
	counter metricKind = "counter"
	buckets metricKind = "histogram"
)

// family is a metric. read adds its samples.
type family struct {
	name   string
	help   string
	kind   metricKind
	labels []string
	read   func(snapshot, *sink)
}

// snapshot holds the data for all samples of one scrape.
type snapshot struct {
	cluster.Status
	build   string
	groups  []election.Group
	records []member.Record          // nil unless the node knows a leader with authority
	wanted  []string                 // jobs for which callers of this node wait
	waits   map[string]time.Duration // longest wait of a caller of this node, by lock
}

// sink collects the samples of one family.
type sink struct {
	*family
	cluster string   // label added to every sample
	samples []string // lines of the text format
}

// addValue adds a sample. The labels are in the order of family.labels.
func (s *sink) addValue(v float64, labels ...string) { s.addSample("", v, s.formatLabels(labels)) }

func (s *sink) addSample(suffix string, v float64, labels string) {
	s.samples = append(s.samples,
		s.name+suffix+"{"+labels+"} "+strconv.FormatFloat(v, 'g', -1, 64))
}

// labelEscapes are the escapes of the Prometheus text format.
var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// formatLabels returns the labels of a sample in the text format.
func (s *sink) formatLabels(values []string) string {
	if len(values) != len(s.labels) {
		panic(fmt.Sprintf("admin: %s has the labels %q, got %q", s.name, s.labels, values))
	}
	text := `cluster="` + labelEscapes.Replace(s.cluster) + `"`
	for i, v := range values {
		text += "," + s.labels[i] + `="` + labelEscapes.Replace(strings.ToValidUTF8(v, "?")) + `"`
	}
	return text
}

// addCount adds a sample of a counter.
func (s *sink) addCount(n uint64, labels ...string) { s.addValue(float64(n), labels...) }

// addFlag adds a sample of 1 or 0.
func (s *sink) addFlag(is bool, labels ...string) {
	if is {
		s.addValue(1, labels...)
	} else {
		s.addValue(0, labels...)
	}
}

// addDurations adds the samples of a histogram.
func (s *sink) addDurations(d receiver.Durations, labels ...string) {
	text := s.formatLabels(labels)
	counts := d.Buckets()
	for _, bound := range slices.Sorted(maps.Keys(counts)) {
		le := strconv.FormatFloat(bound, 'g', -1, 64)
		s.addSample("_bucket", float64(counts[bound]), text+`,le="`+le+`"`)
	}
	s.addSample("_bucket", float64(d.Count()), text+`,le="+Inf"`)
	s.addSample("_sum", d.Sum.Seconds(), text)
	s.addSample("_count", float64(d.Count()), text)
}

// newMetrics returns the handler of /metrics: the metrics of the node, then those of the Go
// runtime and the process, in the Prometheus text format.
func newMetrics(h *handler) http.Handler {
	slots := make(chan struct{}, maxScrapes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			http.Error(w, fmt.Sprintf("busy: %d scrapes are in progress, which is the maximum", maxScrapes),
				http.StatusServiceUnavailable)
			return
		}
		var text bytes.Buffer
		l := h.readSnapshot(r.Context())
		for _, f := range listFamilies() {
			writeFamily(&text, f, l)
		}
		writeRuntimeMetrics(&text)
		writeProcessMetrics(&text)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(text.Bytes()) // an error means that the scraper is gone
	})
}

func (h *handler) readSnapshot(ctx context.Context) snapshot {
	l := snapshot{Status: h.node.Status(), build: h.build, groups: h.groups.list()}
	l.wanted, l.waits = h.waits.read()
	if !l.Token.IsZero() { // otherwise the records may be outdated
		l.records, _ = h.node.Records().List(ctx, "") // an error means that the node has closed
	}
	return l
}

// writeFamily writes a metric if it has samples. It sorts the samples, since some are read from
// maps.
func writeFamily(text *bytes.Buffer, f family, l snapshot) {
	s := &sink{family: &f, cluster: l.Cluster}
	f.read(l, s)
	if len(s.samples) == 0 {
		return
	}
	if f.kind != buckets { // buckets are sorted by their bounds
		slices.Sort(s.samples)
	}
	writeHead(text, f.name, f.kind, f.help)
	for _, line := range s.samples {
		text.WriteString(line)
		text.WriteByte('\n')
	}
}

func (h *handler) serveMetrics(w http.ResponseWriter, r *http.Request) { h.scrape.ServeHTTP(w, r) }

// listFamilies returns all metrics of a node, in the order of docs/metrics.md.
func listFamilies() []family {
	return slices.Concat(
		viewFamilies, electionFamilies, jobFamilies, groupFamilies, memberFamilies, transportFamilies,
		eventFamilies)
}
