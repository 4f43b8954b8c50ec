// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/athena-go/athena/internal/message"
)

// Plan describes a run. It contains everything that is drawn before the run starts. Faults and the
// fates of messages are drawn during the run, and are recorded in a Replay.
type Plan struct {
	Setup    Setup
	Faults   Faults          // enabled classes
	For      time.Duration   // duration of the faults
	Starts   []time.Duration // start time of each process
	Reckless bool            // more stores may be lost than the protocol tolerates
	Epilogue epilogue        // phase after the heal
	// Dead is the number of seeds that start last, after the others must have formed a cluster. The
	// seeds with the greatest addresses start last. Dead is 0 if the run does not check the start.
	Dead int `json:",omitempty"`

	pace    time.Duration // mean time between faults
	guided  float64       // probability that an election triggers a fault
	margins bool          // whether sequences of faults happen too
	without Faults        // classes that do not occur in sequences
}

// sizes are the cluster sizes to draw from; common sizes are listed repeatedly.
var sizes = [...]int{1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 4, 4, 5, 5, 5, 5, 6, 7, 8, 9}

// drawPlan draws the plan of a run. The run of a seed is reproducible only if the order of the
// draws does not change.
func drawPlan(o Options) Plan {
	r := randomStream(o.Seed, streamOptions)
	size, forming := sizes[r.IntN(len(sizes))], randomStream(o.Seed, streamForming)
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
	// Drawn last, so that older seeds keep their faults.
	if randomStream(o.Seed, streamTimingSteps-1).IntN(4) == 0 {
		p.Faults |= TimingSteps &^ o.Without
	}
	if randomStream(o.Seed, streamObituaries-1).IntN(4) == 0 {
		p.Faults |= Obituaries &^ o.Without
	}
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
	p.Epilogue = epilogue(r.IntN(int(slowed)))
	drawRefusals(r, &p.Setup)
	if forms {
		drawForming(forming, &p)
	}
	if r := randomStream(o.Seed, streamHolders); r.IntN(2) == 0 {
		p.Setup.Keys = 1 + r.IntN(4)
		drawWorkers(randomStream(o.Seed, streamWorkers), &p)
	}
	if !forms {
		drawTraits(randomStream(o.Seed, streamPreferences), &p)
		drawClaims(randomStream(o.Seed, streamClaims), &p)
		p.Faults &^= o.Without
	}
	if o.Without&Workers != 0 {
		p.Setup.Workers = 0
	}
	if !forms {
		drawDisks(&p, o)
	}
	if r := randomStream(o.Seed, streamMargins); !forms && o.Without&Skew == 0 && atMargins(r, size) {
		drawMargins(r, &p, o)
	}
	return p
}

// drawDisks draws slow disks and restored copies, each in a quarter of the runs. Half of these runs
// end with such a fault.
func drawDisks(p *Plan, o Options) {
	for _, d := range []struct {
		class  Faults
		stream int
		last   epilogue
	}{{SlowDisks, streamSlowDisks + 1, slowed}, {RestoredCopies, streamCopies + 1, restored}} {
		r := randomStream(o.Seed, d.stream)
		if r.IntN(4) > 0 || o.Without&d.class != 0 {
			continue
		}
		p.Faults |= d.class
		if r.IntN(2) == 0 {
			p.Epilogue = d.last
		}
	}
}

// drawPace draws the mean time between faults and the probability that an election triggers a
// fault.
func drawPace(r *rand.Rand, t message.Timings) (pace time.Duration, guided float64) {
	pace = time.Duration(drawSpread(r, float64(t.LeaderTimeout)/8, 8*float64(t.LeaderTimeout)))
	return pace, drawSpread(r, 1e-3, 0.5)
}

// drawRefusals draws whether refused connections are trusted. If not, it draws hosts that refuse
// connections although the process is running.
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

// maxDrawnFor bounds the drawn duration of the part with faults.
const maxDrawnFor = 5 * time.Minute

// drawFaults enables each class with a probability of 1/2, 1/4 or 1/8. If all classes were enabled
// in every run, frequent faults would hide bugs.
func drawFaults(r *rand.Rand) Faults {
	on := firstFaults
	for range 1 + r.IntN(3) {
		on &= Faults(r.IntN(int(firstFaults) + 1))
	}
	return on
}

// drawLater enables each class of laterFaults in one of three runs.
func drawLater(r *rand.Rand) Faults {
	on := NoFaults
	for _, d := range faultClasses {
		if laterFaults&d.class != 0 && r.IntN(3) == 0 {
			on |= d.class
		}
	}
	return on
}

// drawSpread draws from lo to hi, uniformly on a logarithmic scale.
func drawSpread(r *rand.Rand, lo, hi float64) float64 {
	return lo * math.Pow(hi/lo, r.Float64())
}

// drawTimings draws the heartbeat interval and the ratios of the other timings to it.
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

// drawStores draws which processes have a memory store: none, all, or some.
func drawStores(r *rand.Rand, p *Plan) {
	kind, some := r.IntN(6), r.Uint64()
	for i := range p.Setup.Processes {
		if kind == 0 || kind == 1 && some>>i&1 == 1 {
			p.Setup.Volatile = append(p.Setup.Volatile, i)
		}
	}
}

// maxLate bounds the delay of late messages.
const maxLate = 5 * time.Second

func drawLink(r *rand.Rand, on Faults, t message.Timings) Link {
	l := Link{
		Delay:  time.Duration(r.Int64N(int64(t.HeartbeatInterval / 20))),
		Jitter: time.Duration(r.Int64N(int64(t.HeartbeatInterval / 10))),
	}
	// In some runs the network is so slow that elections and keep-alives overlap.
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

// calmLink returns the link of a healed network: fast, ordered and without loss.
func calmLink(t message.Timings) Link {
	return Link{Delay: t.HeartbeatInterval / 50, Jitter: t.HeartbeatInterval / 200}
}
