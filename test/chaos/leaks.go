// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// usage is a process's use of the resources of the machine.
type usage struct {
	at         time.Duration // since the run began
	run        int           // process id
	goroutines float64
	files      float64
	bytes      float64
}

// usageOf reads the current usage of a node. It returns false if the node has ended.
func (r *runner) usageOf(node int) (usage, bool) {
	p := r.ps.nodes[node]
	if !p.isAlive() {
		return usage{}, false
	}
	proc := "/proc/" + strconv.Itoa(p.cmd.Process.Pid)
	files, err := os.ReadDir(proc + "/fd")
	if err != nil {
		return usage{}, false
	}
	text, err := os.ReadFile(proc + "/statm")
	if err != nil {
		return usage{}, false
	}
	var size, resident int
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return usage{}, false
	}
	return usage{
		at: time.Since(r.began), run: p.cmd.Process.Pid,
		goroutines: float64(p.lastReport().Goroutines), files: float64(len(files)),
		bytes: float64(resident * os.Getpagesize()),
	}, true
}

const (
	// settling is how long a process is ignored after its start, while its memory grows to the working
	// size.
	settling = 10 * time.Minute
	// slopeTime is the shortest time over which a slope is meaningful.
	slopeTime = time.Hour
	// window is the length of a period. Only the lowest usage in each period counts, because lost
	// connections leave goroutines for a while, but leaks are permanent.
	window = 10 * time.Minute
	// maxSlope is the hourly growth, relative to the mean, above which a resource counts as leaking,
	// unless its total growth is below minGrowth.
	maxSlope  = 0.05
	minGrowth = 2
)

// slope is the growth of one resource of a process.
type slope struct {
	node    string
	what    string
	mean    float64
	perHour float64 // relative to the mean
	growth  float64 // total
}

// findSlopes returns the slopes of the processes that have lived long enough. The samples are
// ordered by time.
func findSlopes(node string, samples []usage) []slope {
	var all []slope
	for len(samples) > 0 {
		n := 1
		for n < len(samples) && samples[n].run == samples[0].run {
			n++
		}
		settled := samples[0].at + settling
		life := slices.DeleteFunc(slices.Clone(samples[:n]), func(u usage) bool { return u.at < settled })
		samples = samples[n:]
		if len(life) == 0 || life[len(life)-1].at-life[0].at < slopeTime {
			continue
		}
		for _, thing := range []struct {
			what string
			of   func(usage) float64
		}{
			{"goroutines", func(u usage) float64 { return u.goroutines }},
			{"files", func(u usage) float64 { return u.files }},
			{"bytes", func(u usage) float64 { return u.bytes }},
		} {
			at, least := findFloor(life, thing.of)
			mean, perHour := fitLine(at, least)
			if mean > 0 { // the number of goroutines of a daemon is not known
				growth := perHour * (at[len(at)-1] - at[0])
				all = append(all, slope{node, thing.what, mean, perHour / mean, growth})
			}
		}
	}
	return all
}

// findFloor returns the lowest usage in each window, with the hour of the window's first
// sample. It ignores an incomplete window.
func findFloor(samples []usage, of func(usage) float64) (at, least []float64) {
	var begin time.Duration
	for i, u := range samples {
		if i == 0 || u.at >= begin+window {
			if samples[len(samples)-1].at < u.at+window {
				break
			}
			begin = u.at
			at, least = append(at, u.at.Hours()), append(least, of(u))
		}
		least[len(least)-1] = min(least[len(least)-1], of(u))
	}
	return at, least
}

// fitLine fits a line by least squares and returns the mean of y and the slope.
func fitLine(x, y []float64) (mean, slope float64) {
	var middle float64
	for i := range x {
		mean += y[i] / float64(len(x))
		middle += x[i] / float64(len(x))
	}
	var both, square float64
	for i := range x {
		both += (x[i] - middle) * (y[i] - mean)
		square += (x[i] - middle) * (x[i] - middle)
	}
	return mean, both / square
}

// printSlopes prints the slopes and returns an error that names the leaks.
func printSlopes(w io.Writer, all []slope) error {
	if len(all) == 0 {
		fmt.Fprintf(w, "no process ran for %v: leaks were not checked\n", settling+slopeTime)
		return nil
	}
	var leaks []error
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "node\twhat\tmean\tgrowth per hour")
	for _, s := range all {
		fmt.Fprintf(table, "%s\t%s\t%.0f\t%+.2f %%\n", s.node, s.what, s.mean, 100*s.perHour)
		if s.perHour > maxSlope && s.growth >= minGrowth {
			leaks = append(leaks, fmt.Errorf("%s of %s grow by %.1f %% per hour, more than %.0f %%",
				s.what, s.node, 100*s.perHour, 100*maxSlope))
		}
	}
	return errors.Join(append(leaks, table.Flush())...)
}
