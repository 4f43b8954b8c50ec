// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"context"
	"errors"
	"iter"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/receiver"
)

// Names of the attributes of spans.
const (
	LeaderKey = attribute.Key("athena.leader") // id of the leader
	TokenKey  = attribute.Key("athena.token")  // fencing token of the leader
	FromKey   = attribute.Key("athena.from")   // address of the sender
)

// Tracer records spans. Its methods may be called concurrently.
type Tracer struct{ spans trace.Tracer }

// New returns a Tracer. The instrumentation scope of its spans is the path of this package.
func New(p trace.TracerProvider) *Tracer {
	return &Tracer{p.Tracer("github.com/athena-go/athena/contrib/otel")}
}

// Leaders is a leadership to watch: a leader.Candidate or an election.Job.
type Leaders interface {
	Changes(ctx context.Context) iter.Seq[leader.Holder]
}

// WatchElections records a span for each new leader, until ctx is done or the Candidate ends. The
// span begins when this node lost the previous leader. If the node learned of the loss only from
// the next leader, the span has no length.
func (t *Tracer) WatchElections(ctx context.Context, l Leaders) {
	var lost time.Time // zero while a leader is known
	for h := range l.Changes(ctx) {
		if h == (leader.Holder{}) {
			lost = time.Now()
			continue
		}
		began := lost
		if began.IsZero() {
			began = time.Now()
		}
		_, span := t.spans.Start(context.Background(), "athena election",
			trace.WithTimestamp(began), trace.WithAttributes(attributesOf(h)...))
		span.End()
		lost = time.Time{}
	}
}

// Lead returns a function for WhileLeader or Do that runs fn in a span. If fn returns because its
// term has ended, the span has an event with the cause.
func (t *Tracer) Lead(
	fn func(context.Context, leader.Term) error,
) func(context.Context, leader.Term) error {
	return func(ctx context.Context, term leader.Term) error {
		ctx, span := t.spans.Start(ctx, "athena lead",
			trace.WithAttributes(attributesOf(term.Holder())...))
		defer span.End()
		err := fn(ctx, term)
		if why := context.Cause(ctx); why != nil {
			span.AddEvent("ended", trace.WithAttributes(attribute.String("cause", why.Error())))
		} else {
			recordError(span, err)
		}
		return err
	}
}

// Send runs send in a span of the given name, such as the name of the event's type. The function
// send must pass its option to Send, Broadcast, Request or OpenStream of package cluster, without
// another cluster.WithMetadata.
func (t *Tracer) Send(
	ctx context.Context, name string,
	send func(ctx context.Context, traced cluster.SendOption) error,
) error {
	ctx, span := t.spans.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	metadata := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, metadata)
	err := send(ctx, cluster.WithMetadata(metadata))
	recordError(span, err)
	return err
}

// Intercept implements receiver.Interceptor for receiver.WithInterceptor. It runs the handlers of
// each event, request and stream in a span that belongs to the trace of the sender.
func (t *Tracer) Intercept(
	ctx context.Context, info receiver.Info, next func(ctx context.Context) error,
) error {
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(receiver.Metadata(ctx)))
	ctx, span := t.spans.Start(ctx, "handle "+info.Name, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(FromKey.String(info.From.Address.String())))
	defer span.End()
	err := next(ctx)
	recordError(span, err)
	return err
}

func attributesOf(h leader.Holder) []attribute.KeyValue {
	return []attribute.KeyValue{LeaderKey.String(h.ID), TokenKey.String(h.Token.String())}
}

// recordError marks a span as failed. An attribute shows whether the outcome is unknown, because
// then the receiver may have handled the event.
func recordError(span trace.Span, err error) {
	if err == nil {
		return
	}
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
	span.SetAttributes(attribute.Bool("athena.outcome_unknown",
		errors.Is(err, cluster.ErrUnknownOutcome)))
}
