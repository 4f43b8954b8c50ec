// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"log/slog"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/internal/zslog"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// BenchmarkTurn measures two normal turns of a leader: without a trace, like most heartbeats, and
// with a trace below the log level.
func BenchmarkTurn(b *testing.B) {
	leader := at(1, 0).Address
	view := member.View{Leader: leader, Version: 1, Quorate: true}
	quiet := Turn{
		Began: time.Unix(1, 0), Now: time.Unix(1, 0), Before: view,
		State: State{View: view, Leader: Leader{leader, 1}},
	}
	late := quiet
	late.Traces = []statemachine.Trace{{Kind: statemachine.Missed, Peer: leader, Version: 1}}
	for name, turn := range map[string]Turn{"quiet": quiet, "late heartbeat": late} {
		b.Run(name, func(b *testing.B) {
			log := zslog.NewHandler(zerolog.New(b.Output()).Level(zerolog.InfoLevel))
			o := New(Config{Log: NewLogger(slog.New(log), "n1")})
			b.ReportAllocs()
			for b.Loop() {
				o.Observe(turn)
			}
		})
	}
}
