// SPDX-License-Identifier: Apache-2.0

package steplog

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// Variable names the file to which athena run writes its steps. Only the chaos tests set it.
const Variable = "STEPLOG_FILE"

// maxLogBytes bounds a file. A node whose file is full stops.
const maxLogBytes = 256 << 20

// log writes the steps of a run to a file. It implements diagnosis.Recorder.
type log struct {
	file    *os.File
	left    int // bytes that fit into the file
	machine *statemachine.Machine
	node    member.Identity // before the turn
}

// NewContext returns a context that makes cluster.Start write the steps of its node to a new file.
// An empty path writes none.
func NewContext(ctx context.Context, path string) (context.Context, error) {
	if path == "" {
		return ctx, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	return diagnosis.NewContext(ctx, &log{file: file, left: maxLogBytes}), err
}

// Begin writes the first step of the run.
func (l *log) Begin(m *statemachine.Machine, cfg statemachine.Config, now time.Time) error {
	l.machine, l.node = m, m.View(now).Self
	saved := Durable(m.Durable())
	return l.writeStep(Step{
		Event: Start, Node: l.node, Clock: now.UnixNano(), Saved: &saved,
		Config: &Config{
			Size: cfg.Size, Seeds: cfg.Seeds, TrustRefusal: cfg.TrustRefusal, Timings: cfg.Timings,
			OtherTimings: cfg.OtherTimings, JoinOnly: cfg.JoinOnly, Volatile: cfg.Volatile,
		},
	})
}

// RecordTurn writes the step of a turn that began at now.
func (l *log) RecordTurn(now time.Time, in diagnosis.Input, out statemachine.Output) error {
	s := Step{Event: Time, Node: l.node, Clock: now.UnixNano(), Woke: in.Woke}
	switch {
	case in.Message.Body != nil:
		m := Message(in.Message)
		s.Event, s.Message = Deliver, &m
	case in.Refused != statemachine.Probe{}:
		s.Event, s.Probe = Refusal, &in.Refused
	case in.Order:
		s.Event = Order
	}
	s.Add(out, len(out.Send))
	if !s.Down {
		s.AddAuthority(l.machine, now)
	}
	l.node = l.machine.View(now).Self
	return l.writeStep(s)
}

// writeStep writes a step as one line, with one call of Write.
func (l *log) writeStep(s Step) error {
	s.At = time.Now().UnixNano()
	text, err := json.Marshal(s)
	if l.left -= len(text) + 1; err == nil && l.left < 0 {
		err = fmt.Errorf("more than %d bytes", maxLogBytes)
	}
	if err == nil {
		_, err = l.file.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("steplog: %s: %w", l.file.Name(), err)
	}
	return nil
}
