// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/contrib/otel"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// runTraced runs a node whose leadership, elections, requests and handlers are traced. If it leads,
// it asks a member to charge.
func runTraced(ctx context.Context, p trace.TracerProvider, cfg cluster.Config) error {
	tracer := otel.New(p)
	cfg.Receiver = receiver.NewMux(receiver.WithInterceptor(tracer.Intercept))
	receiver.HandleRequest(cfg.Receiver,
		func(context.Context, member.Member, Charge) (Charged, error) { return Charged{}, nil })
	node, err := cluster.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer node.Leave(context.WithoutCancel(ctx))
	go tracer.WatchElections(ctx, node.Candidate(leader.Options{}))
	return node.WhileLeader(ctx, tracer.Lead(func(ctx context.Context, _ leader.Term) error {
		return tracer.Send(ctx, "Charge", func(ctx context.Context, traced cluster.SendOption) error {
			_, err := cluster.Request[Charged](ctx, node, node.Self().Address, Charge{1}, traced)
			return err
		})
	}))
}

// README.md shows it.
var _ = runTraced
