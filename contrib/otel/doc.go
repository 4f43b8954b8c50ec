// SPDX-License-Identifier: Apache-2.0

// Package otel records OpenTelemetry spans of a node: its leadership, the elections that it sees,
// the events and requests that it sends, and the handlers that it runs for other members.
//
//	tracer := otel.New(provider)
//	rx := receiver.NewMux(receiver.WithInterceptor(tracer.Intercept))
//	go tracer.WatchElections(ctx, node.Candidate(leader.Options{}))
//	err := node.WhileLeader(ctx, tracer.Lead(work))
//
// Send and Intercept pass the trace context on in the metadata of events, in the form of W3C Trace
// Context.
package otel
