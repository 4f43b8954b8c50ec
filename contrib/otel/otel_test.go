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
	"github.com/athena-go/athena/internal/jobrecord"
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
			return a.Value.Emit()
		}
	}
	return ""
}

// TestSpans sends requests to the leader, and kills it while it handles one.
func TestSpans(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := otel.New(trace.NewTracerProvider(trace.WithSpanProcessor(recorder)))
	handle := func(ctx context.Context, _ member.Member, c Charge) (r Charged, err error) {
		return r, tracer.Handle(ctx, "handle Charge", func(ctx context.Context) error {
			if c.Amount == 0 {
				return errBroke
			}
			return jobrecord.Pause(ctx, nil, time.Duration(c.Amount)*time.Second)
		})
	}
	main := func(ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option) error {
		cfg.Receiver = receiver.NewMux()
		receiver.HandleRequest(cfg.Receiver, handle)
		node, err := cluster.Start(ctx, cfg, opts...)
		if err != nil {
			return err
		}
		defer node.Leave(context.WithoutCancel(ctx))
		if i == 0 {
			go tracer.WatchElections(ctx, node.Candidate(leader.Options{}))
		}
		return node.WhileLeader(ctx, tracer.Lead(func(ctx context.Context, _ leader.Term) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}))
	}
	athenatest.Run(t, athenatest.Options{Main: main}, func(t *testing.T, c *athenatest.Cluster) {
		charge := func(amount int) error { // sends a request from node 0 to the leader
			to := c.Address(c.Leader())
			return tracer.Send(t.Context(), "charge",
				func(ctx context.Context, traced cluster.SendOption) error {
					_, err := cluster.Request[Charged](ctx, c.Node(0), to, Charge{amount}, traced)
					return err
				})
		}
		if c.Leader() == 0 { // node 0 watches, so another node must lead
			if err := c.Node(0).Transfer(t.Context(), c.Address(1)); err != nil {
				t.Fatal(err)
			}
			c.NextLeader(0)
		}
		if err := charge(1); err != nil {
			t.Fatal(err)
		}
		if err := charge(0); err == nil {
			t.Error("a request succeeded although its handler failed")
		}
		sent, handled := spansOf(recorder, "charge"), spansOf(recorder, "handle Charge")
		if len(sent) != 2 || len(handled) != 2 {
			t.Fatalf("%d spans of requests and %d of handlers, want 2 each", len(sent), len(handled))
		}
		for i := range sent {
			if handled[i].Parent().SpanID() != sent[i].SpanContext().SpanID() ||
				handled[i].SpanContext().TraceID() != sent[i].SpanContext().TraceID() {
				t.Errorf("request %d: the span of the handler belongs to %v", i, handled[i].Parent())
			}
			want := codes.Unset
			if i == 1 {
				want = codes.Error
			}
			if sent[i].Status().Code != want || handled[i].Status().Code != want {
				t.Errorf("request %d: status %v and %v", i, sent[i].Status(), handled[i].Status())
			}
		}

		killed, before := c.Leader(), len(spansOf(recorder, "athena election"))
		var failed atomic.Bool
		go func() { failed.Store(charge(100) != nil) }()
		c.Advance(time.Second)
		c.Crash(killed)
		c.NextLeader(killed)
		c.Within(10*time.Second, "span of the election", func() bool {
			return len(spansOf(recorder, "athena election")) > before
		})
		c.Within(time.Minute, "failure of the request", failed.Load)
		last := spansOf(recorder, "charge")[2]
		if attribute(last, "athena.outcome_unknown") != "true" {
			t.Errorf("the span of the request has %v, %v", last.Status(), last.Attributes())
		}
		elections := spansOf(recorder, "athena election")
		e := elections[len(elections)-1]
		next := c.Node(c.Leader()).Self().Address.String()
		if took := e.EndTime().Sub(e.StartTime()); took < 0 || attribute(e, "athena.leader") != next {
			t.Errorf("the election took %v and chose %q, want %q",
				took, attribute(e, "athena.leader"), next)
		}
		led := spansOf(recorder, "athena lead")
		if s := led[len(led)-1]; len(s.Events()) != 1 ||
			attribute(s, "athena.leader") != c.Address(killed).String() {
			t.Errorf("the span of the killed leader has %v, %v", s.Attributes(), s.Events())
		}
	})
}
