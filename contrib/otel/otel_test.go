// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/contrib/otel"
	"github.com/athena-go/athena/internal/holding"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

type (
	Charge  struct{ Amount int }
	Charged struct{}
)

var errBroke = errors.New("no money")

// spansOf returns the ended spans with a name.
func spansOf(r *tracetest.SpanRecorder, name string) (found []trace.ReadOnlySpan) {
	for _, s := range r.Ended() {
		if s.Name() == name {
			found = append(found, s)
		}
	}
	return found
}

func attribute(s trace.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// A world is a cluster that records the spans of all nodes.
type world struct {
	*athenatest.Cluster
	spans  *tracetest.SpanRecorder
	tracer *otel.Tracer
}

func (w *world) handle(ctx context.Context, _ member.Member, c Charge) (r Charged, err error) {
	if c.Amount == 0 {
		return r, errBroke
	}
	return r, holding.Pause(ctx, nil, time.Duration(c.Amount)*time.Second)
}

// main runs a node. Node 0 watches the elections.
func (w *world) main(ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option) error {
	cfg.Receiver = receiver.NewMux(receiver.WithInterceptor(w.tracer.Intercept))
	receiver.HandleRequest(cfg.Receiver, w.handle)
	node, err := cluster.Start(ctx, cfg, opts...)
	if err != nil {
		return err
	}
	defer node.Leave(context.WithoutCancel(ctx))
	if i == 0 {
		go w.tracer.WatchElections(ctx, node.Candidate(leader.Options{}))
	}
	return node.WhileLeader(ctx, w.tracer.Lead(func(ctx context.Context, _ leader.Term) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}))
}

// charge sends a request from node 0 to the leader. The handler takes amount seconds, and fails if
// amount is zero.
func (w *world) charge(ctx context.Context, amount int) error {
	node, to := w.Node(0), w.Address(w.Cluster.Leader())
	return w.tracer.Send(ctx, "charge", func(ctx context.Context, o cluster.SendOption) error {
		_, err := cluster.Request[Charged](ctx, node, to, Charge{amount}, o)
		return err
	})
}

// TestSpans sends requests to the leader, and kills the leader while it handles a request.
func TestSpans(t *testing.T) {
	w := &world{spans: tracetest.NewSpanRecorder()}
	w.tracer = otel.New(trace.NewTracerProvider(trace.WithSpanProcessor(w.spans)))
	athenatest.Run(t, athenatest.Options{Main: w.main}, func(t *testing.T, c *athenatest.Cluster) {
		w.Cluster = c
		if c.Leader() == 0 { // the test kills the leader, but not node 0
			if err := c.Node(0).Transfer(t.Context(), c.Address(1)); err != nil {
				t.Fatal(err)
			}
			c.NextLeader(0)
		}
		if err := w.charge(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := w.charge(t.Context(), 0); err == nil {
			t.Error("a request succeeded although its handler failed")
		}
		w.checkRequests(t)
		w.checkKill(t)
	})
}

// checkRequests checks the spans of a request that succeeded and of one that failed.
func (w *world) checkRequests(t *testing.T) {
	sent, handled := spansOf(w.spans, "charge"), spansOf(w.spans, "handle Charge")
	if len(sent) != 2 || len(handled) != 2 {
		t.Fatalf("%d spans of requests and %d of handlers, want 2 each", len(sent), len(handled))
	}
	for i, want := range []codes.Code{codes.Unset, codes.Error} {
		if handled[i].Parent().SpanID() != sent[i].SpanContext().SpanID() ||
			handled[i].SpanContext().TraceID() != sent[i].SpanContext().TraceID() {
			t.Errorf("request %d: the span of the handler belongs to %v", i, handled[i].Parent())
		}
		if from := w.Address(0).String(); attribute(handled[i], "athena.from") != from {
			t.Errorf("request %d: the handler has %v, want %s", i, handled[i].Attributes(), from)
		}
		if sent[i].Status().Code != want || handled[i].Status().Code != want {
			t.Errorf("request %d: status %v and %v", i, sent[i].Status(), handled[i].Status())
		}
	}
}

// checkKill kills the leader while it handles a request, and checks the spans.
func (w *world) checkKill(t *testing.T) {
	killed, before := w.Cluster.Leader(), len(spansOf(w.spans, "athena election"))
	var failed atomic.Bool
	go func() { failed.Store(w.charge(t.Context(), 100) != nil) }()
	w.Advance(time.Second)
	w.Crash(killed)
	w.NextLeader(killed)
	w.Within(10*time.Second, "span of the election", func() bool {
		return len(spansOf(w.spans, "athena election")) > before
	})
	w.Within(time.Minute, "failure of the request", failed.Load)
	if s := spansOf(w.spans, "charge")[2]; attribute(s, "athena.outcome_unknown") != "true" {
		t.Errorf("the span of the request has %v, %v", s.Status(), s.Attributes())
	}
	e := spansOf(w.spans, "athena election")[before]
	next := w.Address(w.Cluster.Leader()).String()
	if took := e.EndTime().Sub(e.StartTime()); took < 0 || attribute(e, "athena.leader") != next {
		t.Errorf("the election took %v and chose %q, want %q", took, attribute(e, "athena.leader"), next)
	}
	led := spansOf(w.spans, "athena lead")
	if s := led[len(led)-1]; len(s.Events()) != 1 ||
		attribute(s, "athena.leader") != w.Address(killed).String() {
		t.Errorf("the span of the killed leader has %v, %v", s.Attributes(), s.Events())
	}
}
