// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"context"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/statemachine"
)

// Recorder records what a node does. Package steplog has the one of the chaos tests.
type Recorder interface {
	// Begin is called once, with the machine of the run.
	Begin(m *statemachine.Machine, cfg statemachine.Config, now time.Time) error
	// RecordTurn is called in each turn before the output takes effect, so that a process that is
	// killed has done nothing that is not recorded. An error stops the node.
	RecordTurn(now time.Time, in Input, out statemachine.Output) error
}

// Input is what a turn handles. It is zero if only time has passed.
type Input struct {
	Message message.Message    // no Body: none
	Refused statemachine.Probe // of a leader whose host refused its port
	Order   bool               // a call of the application
	Woke    bool               // the clock may have stood still before
}

type contextKey struct{}

// NewContext returns a context that makes cluster.Start record its node.
func NewContext(ctx context.Context, r Recorder) context.Context {
	return context.WithValue(ctx, contextKey{}, r)
}

// FromContext returns the Recorder passed to NewContext, or nil.
func FromContext(ctx context.Context) Recorder {
	r, _ := ctx.Value(contextKey{}).(Recorder)
	return r
}
