// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/member"
)

// Replay is a recorded run: its plan, each fault, and the fate of each message that was not
// delivered normally. From the seed, it only draws jitter, clocks and identifiers inside the
// machines.
type Replay struct {
	// Note describes the origin of the run.
	Note string
	// Invariant is the invariant that the run breaks. Shrinking keeps only runs that break the same
	// invariant.
	Invariant string
	Plan      Plan
	Faults    []Fault
	Fates     []Fate
}

// replayFormat is incremented whenever the meaning of a file changes.
const replayFormat = 1

// Format returns the contents of a replay file.
func (r Replay) Format() ([]byte, error) {
	head, err := json.Marshal(r.Plan)
	if err != nil {
		return nil, fmt.Errorf("sim: write a replay: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n\"athena-sim\": %d,\n\"note\": %q,\n\"invariant\": %q,\n\"plan\": %s,\n",
		replayFormat, r.Note, r.Invariant, head)
	if err := errors.Join(formatList(&b, "faults", r.Faults), formatList(&b, "fates",
		r.Fates)); err != nil {
		return nil, fmt.Errorf("sim: write a replay: %w", err)
	}
	b.Truncate(b.Len() - len(",\n"))
	b.WriteString("\n}\n")
	return b.Bytes(), nil
}

func formatList[T any](b *bytes.Buffer, name string, entries []T) error {
	fmt.Fprintf(b, "%q: [", name)
	for i, e := range entries {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		b.Write(line)
	}
	b.WriteString("],\n")
	return nil
}

// ParseReplay parses a replay file.
func ParseReplay(content []byte) (Replay, error) {
	var f struct {
		Athena int `json:"athena-sim"`
		Replay
	}
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return Replay{}, fmt.Errorf("sim: not a replay file: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return Replay{}, fmt.Errorf("sim: not a replay file: data after the last } at byte %d",
			d.InputOffset())
	}
	if f.Athena != replayFormat {
		return Replay{},
			fmt.Errorf("sim: the replay file has format %d, but this program reads only format %d",
				f.Athena, replayFormat)
	}
	// A run without a violation names no invariant.
	if f.Invariant != "" && !slices.Contains(invariants[:], f.Invariant) {
		return Replay{}, fmt.Errorf("sim: unknown invariant %q: want one of %s",
			f.Invariant, strings.Join(invariants[:], ", "))
	}
	if err := f.Plan.checkPlan(); err != nil {
		return Replay{}, fmt.Errorf("sim: invalid plan in the replay file: %w", err)
	}
	for _, fault := range f.Faults {
		isKnown := func(c faultClass) bool { return c.class == fault.Class }
		if !slices.ContainsFunc(faultClasses[:], isKnown) {
			return Replay{}, fmt.Errorf("sim: faults of class %v cannot be scheduled: remove them",
				fault.Class)
		}
	}
	return f.Replay, nil
}

// checkPlan returns an error if a plan that was read from a file cannot be run.
func (p Plan) checkPlan() error {
	s := p.Setup
	among := func(list []int) bool {
		return !slices.ContainsFunc(list, func(i int) bool { return i < 0 || i >= s.Processes })
	}
	if err := s.Timings.Validate(); err != nil {
		return err
	}
	// With larger values a run takes hours and finds nothing new.
	t := s.Timings
	longest := max(t.TTLTimeout, t.RetryInterval)
	network := []time.Duration{s.Link.Delay, s.Link.Jitter, s.Link.MaxLate}
	latest := max(t.LeaderTimeout, maxLate)
	switch {
	case s.Size < 1 || s.Processes < s.Size || s.total() > MaxProcesses:
		return fmt.Errorf("impossible counts: %d processes, %d members, %d twins and %d claimants",
			s.Processes, s.Size, len(s.Twins), len(s.Claimants))
	case len(s.Seeds) == 0 || !among(s.Seeds) || !among(s.Volatile) || !among(s.Twins) ||
		!among(s.Rejects) || !among(s.Slow) || !among(s.Claimants):
		return fmt.Errorf("no seeds, or a process out of range: seeds %v, volatile %v, twins %v, "+
			"rejects %v, slow %v, claimants %v of %d processes",
			s.Seeds, s.Volatile, s.Twins, s.Rejects, s.Slow, s.Claimants, s.Processes)
	case len(s.Preferences) > 0 && len(s.Preferences) < s.Processes ||
		slices.ContainsFunc(s.Preferences, func(n member.Preference) bool { return !n.IsValid() }):
		return fmt.Errorf("invalid Preferences %v: want a valid one for each of the %d processes",
			s.Preferences, s.Processes)
	case s.HandOver < 0 || s.HandOver > 0 && s.HandOver < s.Timings.LeaderTimeout ||
		s.HandOver > maxTimeout:
		return fmt.Errorf("invalid HandOver %v: want 0, or LeaderTimeout to %v", s.HandOver, maxTimeout)
	case s.SeatTimeout < 0 || s.SeatTimeout > MaxFor:
		return fmt.Errorf("invalid SeatTimeout %v: want 0 to %v", s.SeatTimeout, MaxFor)
	case s.Workers < 0 || s.Workers > maxWorkers:
		return fmt.Errorf("invalid Workers %d: want 0 to %d", s.Workers, maxWorkers)
	case s.TrustRefusal && len(s.Rejects) > 0:
		return fmt.Errorf("invalid Rejects %v: must be empty if TrustRefusal is set", s.Rejects)
	case len(p.Starts) != s.Processes:
		return fmt.Errorf("got %d start times, want one for each of the %d processes",
			len(p.Starts), s.Processes)
	case p.Dead < 0 || p.Dead >= len(s.Seeds):
		return fmt.Errorf("invalid Dead, %d of %d seeds: want 0 or more, and fewer than all",
			p.Dead, len(s.Seeds))
	case longest > maxTimeout:
		return fmt.Errorf("invalid TTLTimeout %v or RetryInterval %v: want at most %v",
			t.TTLTimeout, t.RetryInterval, maxTimeout)
	case slices.Min(p.Starts) < 0 || slices.Max(p.Starts) > MaxFor:
		return fmt.Errorf("want start times from 0 to %v, got %v", MaxFor, p.Starts)
	case s.Lag < 0 || s.Lag > t.HeartbeatInterval:
		return fmt.Errorf("invalid Lag %v: want 0 to HeartbeatInterval, %v",
			s.Lag, t.HeartbeatInterval)
	case slices.Min(network) < 0 || slices.Max(network) > latest:
		return fmt.Errorf("invalid Delay, Jitter or MaxLate %v: want 0 to %v", network, latest)
	case p.For < 0 || p.For > MaxFor || p.Epilogue < 0 || p.Epilogue >= epilogues:
		return fmt.Errorf("invalid For %v or Epilogue %d: out of range", p.For, p.Epilogue)
	}
	return nil
}

// maxTimeout bounds the timings of a run that is read from a file.
const maxTimeout = 10 * time.Minute

// Capture runs like Run and records the run.
func Capture(o Options) (Result, Replay) {
	if err := o.Validate(); err != nil {
		panic(err)
	}
	t := &recording{writing: true}
	p := drawPlan(o)
	result := runPlan(p, t, o.Record)
	r := Replay{Note: fmt.Sprintf("seed %d", o.Seed), Plan: p, Faults: t.faults, Fates: t.fates}
	if result.Violation != nil {
		r.Invariant = result.Violation.Invariant
	}
	return result, r
}

// Reproduce repeats a recorded run.
func Reproduce(r Replay, record func(Record)) Result {
	return runPlan(r.Plan, newReplayRecording(r.Faults, r.Fates), record)
}
