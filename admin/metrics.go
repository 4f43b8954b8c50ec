// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/histogram"
)

// maxScrapes is how many scrapes are answered at once.
const maxScrapes = 4

// family is one metric: the values of it are read from one look at the node.
type family struct {
	name   string
	help   string
	kind   prometheus.ValueType // of histograms untyped
	labels []string
	read   func(look, *sink)
}

// look is what all values of one scrape are read from.
type look struct {
	cluster.Status
	build  string
	groups []*election.Election
}

// sink takes the values of one family.
type sink struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	out  chan<- prometheus.Metric
}

// value hands on one value with its labels.
func (s *sink) value(v float64, labels ...string) {
	s.out <- prometheus.MustNewConstMetric(s.desc, s.kind, v, labels...)
}

// count hands on a counter.
func (s *sink) count(n uint64, labels ...string) { s.value(float64(n), labels...) }

// flag hands on 1 where it is so, else 0.
func (s *sink) flag(is bool, labels ...string) {
	if is {
		s.value(1, labels...)
	} else {
		s.value(0, labels...)
	}
}

// durations hands on a histogram with its labels.
func (s *sink) durations(d histogram.Durations, labels ...string) {
	s.out <- prometheus.MustNewConstHistogram(
		s.desc, d.Count(), d.Sum.Seconds(), d.Buckets(), labels...)
}

// collector reads all families of a node (prometheus.Collector).
type collector struct {
	node     Node
	build    string
	groups   func() []*election.Election
	families []family
	descs    []*prometheus.Desc // of families, in their order
}

func newCollector(h *handler) *collector {
	node := h.node
	c := &collector{node: node, build: h.build, groups: h.groups, families: families()}
	same := prometheus.Labels{"cluster": node.Status().Cluster}
	for _, f := range c.families {
		c.descs = append(c.descs, prometheus.NewDesc(f.name, f.help, f.labels, same))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	l := look{c.node.Status(), c.build, c.groups()}
	for i, f := range c.families {
		f.read(l, &sink{c.descs[i], f.kind, out})
	}
}

// newMetrics answers /metrics, from a registry of its own: a program may have several
// nodes, and metrics of its own.
func newMetrics(h *handler) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		newCollector(h),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

func (h *handler) metrics(w http.ResponseWriter, r *http.Request) { h.scrape.ServeHTTP(w, r) }

// families are all metrics of a node, in the order of docs/metrics.md.
func families() []family {
	return slices.Concat(
		viewFamilies, electionFamilies, groupFamilies, memberFamilies, transportFamilies,
		eventFamilies)
}
