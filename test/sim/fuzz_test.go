// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/statemachine"
)

// fuzzedRun bounds the virtual time of the runs that FuzzReplay repeats. Longer runs are valid but
// slow. A run that takes longer than fuzzedTime in real time is considered endless.
const (
	fuzzedRun  = 15 * time.Second
	fuzzedTime = 20 * time.Second
)

// FuzzReplay parses arbitrary files as replays and adds faults. A parsed replay must
// survive formatting and parsing unchanged. Running it must not panic, must end in bounded
// time, and must give the same result twice.
func FuzzReplay(f *testing.F) {
	for _, name := range []string{"quorum-too-small", "promise-not-kept", "seat-of-anybody"} {
		content, err := os.ReadFile("testdata/regress/" + name + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content, []byte(nil))
	}
	for seed := range uint64(12) {
		_, r := Capture(Options{Seed: seed, Size: 1 + int(seed)%4, For: time.Second})
		r.Faults, r.Fates = nil, nil
		content, err := r.Format()
		if err != nil {
			f.Fatal(err)
		}
		random := make([]byte, 200)
		for i := range random {
			random[i] = byte(rand.New(rand.NewPCG(seed, uint64(i))).Uint32())
		}
		f.Add(content, random)
	}
	f.Fuzz(func(t *testing.T, content, more []byte) {
		r, err := ParseReplay(content)
		if err != nil {
			return
		}
		r.Faults = append(r.Faults, faultsIn(more)...)
		written, err := r.Format()
		if err != nil {
			t.Fatalf("%+v can be parsed but not formatted: %v", r, err)
		}
		again, err := ParseReplay(written)
		if err != nil {
			return // the additional faults are out of bounds
		}
		s := r.Plan.Setup
		if r.Plan.For > fuzzedRun || s.total() > 6 || s.Timings.TTLTimeout > fuzzedRun ||
			s.Timings.HeartbeatInterval < 20*time.Millisecond || s.Timings.RetryInterval > fuzzedRun {
			return
		}
		hung := time.AfterFunc(fuzzedTime, func() { panic("it runs for ever: " + string(written)) })
		defer hung.Stop()
		first, second := Reproduce(again, nil), Reproduce(again, nil)
		if first.Hash != second.Hash || !reflect.DeepEqual(first.Violation, second.Violation) {
			t.Fatalf("the first run is %v, the second %v", first, second)
		}
	})
}

// faultsIn decodes bytes as faults.
func faultsIn(b []byte) (faults []Fault) {
	next := func() int64 {
		var wide [8]byte
		if len(b) == 0 {
			return 0
		}
		k := b[0]
		b = b[1:]
		switch {
		case k < 0xe0:
			return int64(k%16) << (k / 16 * 2)
		case k < 0xf0:
			return -int64(k % 16)
		}
		b = b[copy(wide[:], b):]
		return int64(binary.LittleEndian.Uint64(wide[:]))
	}
	for len(b) > 0 && len(faults) < 64 {
		f := Fault{At: max(next(), 0) * int64(time.Millisecond)}
		f.Class = faultClasses[uint64(next())%uint64(len(faultClasses))].class
		f.Who, f.Lasts = int(uint64(next())%8), max(next(), 0)*int64(time.Microsecond)
		for range uint64(next()) % 8 {
			f.Args = append(f.Args, next())
		}
		faults = append(faults, f)
	}
	return faults
}

// conversation is a series of frames to one of three nodes. Each frame follows a pause, in
// hundredths of a second.
type conversation []byte

func (c *conversation) add(pause byte, frame []byte) {
	*c = append(binary.BigEndian.AppendUint16(append(*c, pause), uint16(len(frame))), frame...)
}

func (c *conversation) next() (pause time.Duration, frame []byte, ok bool) {
	if len(*c) < 3 {
		return 0, nil, false
	}
	pause = time.Duration((*c)[0]) * 10 * time.Millisecond
	n := min(int(binary.BigEndian.Uint16((*c)[1:])), len(*c)-3)
	frame, *c = (*c)[3:3+n], (*c)[3+n:]
	return pause, frame, true
}

func machineAt(i int, now time.Time) *statemachine.Machine {
	cfg := statemachine.Config{
		Address: addressOf(i), Name: nameOf(i), Size: 3, Timings: fast(),
		Rand: rand.New(rand.NewPCG(1, uint64(i))),
	}
	for s := range cfg.Size {
		cfg.Seeds = append(cfg.Seeds, addressOf(s))
	}
	d := paxos.Durable{StoreID: member.StoreID{byte(i + 1)}, Incarnation: 1}
	return statemachine.New(cfg, d, now)
}

// spoken records the conversation with one of three processes while they form a cluster.
func spoken(f *testing.F, who int, turns int) (c conversation) {
	now := time.Unix(1000, 0)
	var machines [3]*statemachine.Machine
	for i := range machines {
		machines[i] = machineAt(i, now)
	}
	pause := byte(0)
	for range turns {
		var sent []message.Message
		for _, m := range machines {
			sent = append(sent, m.Advance(now).Send...)
		}
		for len(sent) > 0 && len(c) < 16<<10 {
			in := sent[0]
			sent = sent[1:]
			frame, err := wire.Encode(in)
			if err != nil {
				f.Fatal(err)
			}
			for i, m := range machines {
				if in.To != addressOf(i) {
					continue
				}
				if i == who {
					c.add(pause, frame)
					pause = 0
				}
				sent = append(sent, m.Step(now, in).Send...)
			}
		}
		now = now.Add(50 * time.Millisecond)
		pause += 5
	}
	return c
}

// FuzzFrames delivers arbitrary frames to a machine. It must not panic, and its messages
// must survive encoding and decoding unchanged. FuzzStep in package statemachine checks
// further properties with meaningful messages.
func FuzzFrames(f *testing.F) {
	for who := range 3 {
		f.Add([]byte(spoken(f, who, 8)), uint8(who))
		f.Add([]byte(spoken(f, who, 40)), uint8(who))
	}
	f.Fuzz(func(t *testing.T, frames []byte, who uint8) {
		const most = 32 << 10
		c := conversation(frames[:min(len(frames), most)])
		now := time.Unix(1000, 0)
		m := machineAt(int(who%3), now)
		checkFrames(t, m.Advance(now).Send)
		for {
			pause, frame, ok := c.next()
			if !ok {
				return
			}
			now = now.Add(pause)
			checkFrames(t, m.Advance(now).Send)
			in, err := wire.Decode(frame)
			if err != nil || in.Body.Kind() == message.KindGreet {
				continue // an invalid frame closes its connection, and the Mesh handles greetings
			}
			checkFrames(t, m.Step(now, in).Send)
			if m.Check() != nil || m.Durable().Held.Version > member.MaxCount/2 {
				return // more frames than a cluster can cause
			}
		}
	})
}

func checkFrames(t *testing.T, sent []message.Message) {
	t.Helper()
	for _, m := range sent {
		frame, err := wire.Encode(m)
		if err != nil {
			t.Fatalf("%+v cannot be sent: %v", m, err)
		}
		back, err := wire.Decode(frame)
		if err != nil || back.From != m.From || back.To != m.To || back.Claim != m.Claim ||
			back.Body.Kind() != m.Body.Kind() {
			t.Fatalf("%+v arrives as %+v, %v", m, back, err)
		}
	}
}
