// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/athena-go/athena/internal/message"
)

// Plan is a run with everything drawn that is settled before it begins. Faults
// that strike at a time of their own, and what becomes of each message, are
// drawn on the way (Replay).
type Plan struct {
	Setup    Setup
	Faults   Faults          // classes that happen
	For      time.Duration   // how long they do
	Starts   []time.Duration // when each process starts
	Reckless bool            // disks and memory are lost beyond what is promised
	Epilogue epilogue        // what happens after the heal
	// Dead is how many seeds, those of the greatest addresses, start only when the others
	// have formed a cluster in time; 0 where nothing is demanded of the start.
	Dead int `json:",omitempty"`

	pace    time.Duration // mean time between faults
	guided  float64       // probability that an election draws a fault
	margins bool          // faults come in sequences too
	without Faults        // classes that sequences leave out
}

// sizes are those of clusters, the usual ones more often.
var sizes = [...]int{1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 4, 4, 5, 5, 5, 5, 6, 7, 8, 9}

// drawPlan makes the plan of a run. The order of the draws belongs to the meaning
// of a seed.
func drawPlan(o Options) Plan {
	r := randomStream(o.Seed, streamOptions)
	size := sizes[r.IntN(len(sizes))]
	forming := randomStream(o.Seed, streamForming)
	forms := forming.IntN(20) == 0 && (o.Size == 0 || o.Size > fewSeeds)
	if forms {
		size = fewSeeds + 1 + forming.IntN(MaxSize-fewSeeds)
	}
	if o.Size > 0 {
		size = o.Size
	}
	p := Plan{Faults: (drawFaults(r) | drawLater(randomStream(o.Seed, streamLater))) &^ o.Without}
	p.Setup = Setup{
		Seed:      o.Seed,
		Size:      size,
		Timings:   drawTimings(r),
		Processes: size + r.IntN(4)*r.IntN(2),
		Skew:      p.Faults&Skew != 0,
		Codec:     r.IntN(8) == 0,
	}
	p.Setup.Seeds = r.Perm(size)[:1+r.IntN(size)]
	drawStores(r, &p)
	if twin := r.IntN(p.Setup.Processes); p.Faults&Twins != 0 {
		p.Setup.Twins = []int{twin}
	}
	t := p.Setup.Timings
	p.Setup.Link = drawLink(r, p.Faults, t)
	p.Setup.Lag = time.Duration(r.IntN(3)) * t.HeartbeatInterval / 100
	p.pace, p.guided = drawPace(r, t)
	p.Reckless = r.IntN(12) == 0
	stagger := time.Duration(r.IntN(3)) * t.RetryInterval * time.Duration(1+r.IntN(4))
	for range p.Setup.Processes {
		p.Starts = append(p.Starts, time.Duration(r.Int64N(int64(stagger)+1)))
	}
	p.For = time.Duration(drawSpread(r, 2, 8) * float64(t.TTLTimeout)).Round(time.Second)
	p.For = min(max(p.For, 10*t.LeaderTimeout), maxDrawnFor)
	if o.For > 0 {
		p.For = o.For
	}
	p.Epilogue = epilogue(r.IntN(int(epilogues)))
	drawRefusals(r, &p.Setup)
	if forms {
		drawForming(forming, &p)
	}
	if r := randomStream(o.Seed, streamHolders); r.IntN(2) == 0 {
		p.Setup.Keys = 1 + r.IntN(4)
	}
	if r := randomStream(o.Seed, streamMargins); !forms && o.Without&Skew == 0 && atMargins(r, size) {
		drawMargins(r, &p, o)
	}
	return p
}

// drawPace draws the mean time between faults, and how likely an election draws one.
func drawPace(r *rand.Rand, t message.Timings) (pace time.Duration, guided float64) {
	pace = time.Duration(drawSpread(r, float64(t.LeaderTimeout)/8, 8*float64(t.LeaderTimeout)))
	return pace, drawSpread(r, 1e-3, 0.5)
}

// drawRefusals draws whether refused ports are trusted, and else hosts that refuse
// without a reason.
func drawRefusals(r *rand.Rand, s *Setup) {
	if s.TrustRefusal = r.IntN(2) == 0; s.TrustRefusal || r.IntN(2) == 0 {
		return
	}
	for i := range s.Processes {
		if r.IntN(2) == 0 {
			s.Rejects = append(s.Rejects, i)
		}
	}
}

// maxDrawnFor bounds the faulty part where it is drawn.
const maxDrawnFor = 5 * time.Minute

// drawFaults switches each class on or off: one in two, in four or in eight,
// since runs in which everything fails at once hide as much as runs in which
// nothing does.
func drawFaults(r *rand.Rand) Faults {
	on := firstFaults
	for range 1 + r.IntN(3) {
		on &= Faults(r.IntN(int(firstFaults) + 1))
	}
	return on
}

// drawLater switches each of the classes that were added later on in one run of three.
func drawLater(r *rand.Rand) Faults {
	on := NoFaults
	for _, d := range deeds {
		if laterFaults&d.class != 0 && r.IntN(3) == 0 {
			on |= d.class
		}
	}
	return on
}

// drawSpread draws between lo and hi, every order of size alike.
func drawSpread(r *rand.Rand, lo, hi float64) float64 {
	return lo * math.Pow(hi/lo, r.Float64())
}

// drawTimings draws the ratios of a profile and how fast the whole goes.
func drawTimings(r *rand.Rand) message.Timings {
	interval := 500 * time.Millisecond
	if r.IntN(4) == 0 {
		interval = 100 * time.Millisecond
	}
	ratios := [][4]int{ // heartbeat timeout, leader timeout, TTL, tenths of retry
		{4, 10, 20, 50},
		{4, 10, 50, 50},
		{4, 10, 60, 40},
		{3, 9, 9, 5},
		{4, 10, 100, 50},
	}[r.IntN(5)]
	t := message.Timings{
		HeartbeatInterval: interval,
		HeartbeatTimeout:  time.Duration(ratios[0]) * interval,
		LeaderTimeout:     time.Duration(ratios[1]) * interval,
		TTLTimeout:        time.Duration(ratios[2]) * interval,
		RetryInterval:     time.Duration(ratios[3]) * interval / 10,
	}
	t.LeaseTimeout = t.LeaderTimeout
	if r.IntN(3) == 0 {
		t.LeaseTimeout /= 2
	}
	return t
}

// drawStores draws who forgets everything at a crash: nobody, all, or some.
func drawStores(r *rand.Rand, p *Plan) {
	kind, some := r.IntN(6), r.Uint64()
	for i := range p.Setup.Processes {
		if kind == 0 || kind == 1 && some>>i&1 == 1 {
			p.Setup.Volatile = append(p.Setup.Volatile, i)
		}
	}
}

// maxLate bounds the heavy tail of delays.
const maxLate = 5 * time.Second

func drawLink(r *rand.Rand, on Faults, t message.Timings) Link {
	l := Link{
		Delay:  time.Duration(r.Int64N(int64(t.HeartbeatInterval / 20))),
		Jitter: time.Duration(r.Int64N(int64(t.HeartbeatInterval / 10))),
	}
	// So slow that elections and keep-alives run side by side, in some runs.
	switch r.IntN(5) {
	case 0:
		l.Delay, l.Jitter = 4*l.Delay, 6*l.Jitter
	case 1:
		l.Delay, l.Jitter = 8*l.Delay, 20*l.Jitter
	}
	loss, duplicate, late := r.Float64(), r.Float64(), r.Float64()
	if on&Loss != 0 {
		l.Loss = 0.3 * loss * loss
	}
	if on&Duplication != 0 {
		l.Duplicate = 0.5 * duplicate * duplicate
	}
	if on&Delay != 0 {
		l.Late, l.MaxLate = 0.2*late*late, maxLate
	}
	l.Unordered = on&Reordering != 0
	return l
}

// calmLink is the network after the heal: quick, ordered and without loss.
func calmLink(t message.Timings) Link {
	return Link{Delay: t.HeartbeatInterval / 50, Jitter: t.HeartbeatInterval / 200}
}
