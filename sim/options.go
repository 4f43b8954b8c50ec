// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/athena-go/athena/message"
)

// MaxSize is the largest cluster that Run draws.
const MaxSize = 5

// Faults is a set of classes of faults.
type Faults uint16

// The classes of faults. Each is in a run with probability 1/2.
const (
	Loss        Faults = 1 << iota // up to 30 % of the messages of a link
	Duplication                    // up to 50 %
	Delay                          // heavy tail and clogged links, up to 5 s
	Reordering                     // messages overtake each other
	Cuts                           // links, one way and two ways
	Partitions                     // halves, one alone, bridge, ring, hub
	Pauses                         // of a process
	Crashes                        // at any time and at any step
	LostDisks                      // of a process that is down
	Operators                      // leave, transfer, drain
	Twins                          // a second process at one address
	Skew                           // clocks with rates 1.0 to 1.1

	NoFaults  Faults = 0
	AllFaults        = Skew<<1 - 1
)

var faultNames = [...]string{
	"loss", "duplication", "delay", "reordering", "cuts", "partitions", "pauses", "crashes",
	"lost disks", "operators", "twins", "skew",
}

// String lists the classes.
func (f Faults) String() string {
	var names []string
	for i, name := range faultNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Options says which run to do. What is zero is drawn from the seed.
type Options struct {
	Seed uint64
	Size int           // N, 1 to MaxSize
	For  time.Duration // global time during which faults happen, at most MaxFor
	// Without takes classes of faults out of the run; everything else stays
	// as drawn. It serves to find out what a failure needs.
	Without Faults
	// Record gets everything that happens, where it is set.
	Record func(Record)
}

// MaxFor bounds the faulty part of a run.
const MaxFor = 24 * time.Hour

// Validate says what is wrong with the options.
func (o Options) Validate() error {
	if o.Size < 0 || o.Size > MaxSize {
		return fmt.Errorf("sim: Size %d: want 1 to %d, or 0 to draw it", o.Size, MaxSize)
	}
	if o.For < 0 || o.For > MaxFor {
		return fmt.Errorf("sim: For %v: want up to %v, or 0 to draw it", o.For, MaxFor)
	}
	return nil
}

// Replay is the command that does the same run again and prints it.
func (o Options) Replay() string {
	return fmt.Sprintf("athena sim --seed %d --size %d --for %v", o.Seed, o.Size, o.For)
}

// plan is a run with everything drawn.
type plan struct {
	setup     Setup
	faults    Faults
	length    time.Duration
	pace      time.Duration // mean time between faults
	perStep   float64       // probability to crash at a step
	rough     Link          // the network while there are faults
	reckless  bool          // lose disks and memory beyond what is promised
	stagger   time.Duration // processes start within this time
	clockBack bool          // memory stores start with an earlier incarnation now and then
	epilogue  epilogue      // what happens after the heal
}

// draw makes the plan of a run. The order of the draws belongs to the meaning
// of a seed.
func draw(o Options) plan {
	r := stream(o.Seed, streamOptions)
	size := 1 + r.IntN(MaxSize)
	if r.IntN(3) > 0 {
		size = max(size, 3)
	}
	if o.Size > 0 {
		size = o.Size
	}
	p := plan{faults: Faults(r.IntN(int(AllFaults)+1)) &^ o.Without}
	p.setup = Setup{
		Seed:      o.Seed,
		Size:      size,
		Timings:   drawTimings(r),
		Processes: size + r.IntN(3)*r.IntN(2),
		Skew:      p.faults&Skew != 0,
		Codec:     r.IntN(8) == 0,
		Record:    o.Record,
	}
	p.setup.Seeds = r.Perm(size)[:1+r.IntN(size)]
	drawStores(r, &p)
	if twin := r.IntN(p.setup.Processes); p.faults&Twins != 0 {
		p.setup.Twins = []int{twin}
	}
	t := p.setup.Timings
	p.rough = drawLink(r, p.faults, t)
	p.setup.Link = p.rough
	p.setup.Lag = time.Duration(r.IntN(3)) * t.HeartbeatInterval / 100
	p.pace = time.Duration(spread(r, float64(t.LeaderTimeout)/4, 8*float64(t.LeaderTimeout)))
	p.perStep = spread(r, 1e-5, 3e-3)
	p.reckless = r.IntN(12) == 0
	p.clockBack = r.IntN(3) == 0
	p.stagger = time.Duration(r.IntN(3)) * t.RetryInterval * time.Duration(1+r.IntN(4))
	p.length = time.Duration(spread(r, 2, 8) * float64(t.TTLTimeout)).Round(time.Second)
	p.length = min(max(p.length, 10*t.LeaderTimeout), maxDrawnFor)
	if o.For > 0 {
		p.length = o.For
	}
	p.epilogue = epilogue(r.IntN(int(epilogues)))
	return p
}

// maxDrawnFor bounds the faulty part where it is drawn.
const maxDrawnFor = 5 * time.Minute

// spread draws between lo and hi, every order of size alike.
func spread(r *rand.Rand, lo, hi float64) float64 {
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
func drawStores(r *rand.Rand, p *plan) {
	kind, some := r.IntN(6), r.Uint64()
	for i := range p.setup.Processes {
		if kind == 0 || kind == 1 && some>>i&1 == 1 {
			p.setup.Volatile = append(p.setup.Volatile, i)
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
	if r.IntN(4) == 0 { // so slow that elections and keep-alives run side by side
		l.Delay, l.Jitter = 4*l.Delay, 6*l.Jitter
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

// calm is the network after the heal: quick, ordered and without loss.
func calm(t message.Timings) Link {
	return Link{Delay: t.HeartbeatInterval / 50, Jitter: t.HeartbeatInterval / 200}
}
