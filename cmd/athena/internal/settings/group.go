// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/lowest"
)

// strategyFlag is the flag of athena group that names the strategy.
const strategyFlag = "strategy"

// Group holds the flags of athena group that configure the election.
type Group struct {
	file     string
	strategy string
	timing   election.Timing
	retryFor time.Duration
}

// Define adds the flags of g to f.
func (g *Group) Define(f *pflag.FlagSet) {
	f.StringVar(&g.file, ConfigFlag, "",
		"YAML `file` with values for the flags of the election under groups.NAME (env ATHENA_CONFIG)")
	f.StringVar(&g.strategy, strategyFlag, "", "who leads: quorum, lowest, static or standby")
	g.timing = election.DefaultTiming()
	for _, t := range groupTimings(&g.timing) {
		f.DurationVar(t.Value, t.Flag, *t.Value, "of lowest: "+t.Use)
	}
	f.DurationVar(&g.retryFor, "retry-for", 0, "how long a failed command is run again before this "+
		"process gives up the leadership; 0 means to exit instead")
}

// groupTimings returns the durations of t with their flags.
func groupTimings(t *election.Timing) []Timing {
	return []Timing{
		{"grace", &t.Grace, "longest wait for a stable set of members"},
		{"sample", &t.Sample, "time for which a stable set of members does not change"},
		{"alive", &t.Alive, "silence after which the leader is replaced"},
		{"campaign", &t.Campaign, "longest wait for other candidates"},
		{"hold", &t.Hold, "longest pause of a process that gave up the leadership"},
	}
}

// Read returns the options of a group. An option comes from the flags f or, if its flag is not set,
// from the file. The error is a cli.UsageError that contains every fault and its place.
func (g *Group) Read(f *pflag.FlagSet, group string) (election.Options, error) {
	found := &faults{flags: f}
	if g.file != "" {
		content, err := fileContent(g.file)
		if err != nil {
			return election.Options{}, cli.Usage(fmt.Errorf("%s: %w", Given(f, ConfigFlag), err))
		}
		p := parseFile(g.file, content)
		for _, one := range p.faults {
			found.list = append(found.list, one.err)
		}
		for _, one := range p.groups {
			if one.name == group {
				one.applyTo(found)
			}
		}
	}
	if g.strategy == "" && len(found.list) == 0 {
		found.checkThat(false, strategyFlag, " is missing: must be quorum, lowest, static or standby, "+
			"here or under groups.NAME in the file of --config")
	}
	o := g.checkOptions(found)
	return o, found.joinedErr()
}

// checkOptions returns the options, and adds any faults to the given ones. If the strategy is not
// set, it checks the options for lowest.
func (g *Group) checkOptions(found *faults) election.Options {
	f := found.flags
	o := election.Options{Strategy: election.Lowest, Timing: g.timing, RetryFor: g.retryFor}
	if g.strategy != "" {
		err := o.Strategy.UnmarshalText([]byte(g.strategy))
		found.checkThat(err == nil, strategyFlag, " %.50q: must be quorum, lowest, static or standby",
			g.strategy)
	}
	found.checkThat(g.retryFor >= 0, "retry-for", " %v: must not be negative", g.retryFor)
	if o.Strategy == election.Lowest {
		before := len(found.list)
		for _, t := range groupTimings(&g.timing) {
			found.checkThat(*t.Value >= lowest.MinTiming && *t.Value <= lowest.MaxTiming, t.Flag,
				" %v: must be %v to %v", *t.Value, lowest.MinTiming, lowest.MaxTiming)
		}
		found.checkThat(g.timing.Sample <= g.timing.Grace || len(found.list) > before, "sample",
			" %v: must not exceed %s, which is %v", g.timing.Sample, alsoGiven(f, "grace"), g.timing.Grace)
		return o
	}
	o.Timing = election.Timing{}
	for _, t := range groupTimings(&g.timing) {
		// A strategy of the command line replaces the one of the file with its timings.
		from := originOf(f, t.Flag).from
		replaced := from == "file" && originOf(f, strategyFlag).from == "flag"
		found.checkThat(from == "default" || replaced, t.Flag,
			" applies only to the strategy lowest, not to %s", g.strategy)
	}
	return o
}

// checkGroup adds the faults of a group in the file to the given ones, and returns its flags.
func checkGroup(one fileGroup, all *faults) *pflag.FlagSet {
	var g Group
	found := &faults{flags: pflag.NewFlagSet("group", pflag.ContinueOnError)}
	g.Define(found.flags)
	one.applyTo(found)
	g.checkOptions(found)
	all.list = append(all.list, found.list...)
	return found.flags
}

// effectiveGroup returns the settings of a group in the file.
func effectiveGroup(one fileGroup) (all []Effective) {
	f := checkGroup(one, &faults{})
	chosen := f.Lookup(strategyFlag).Value.String()
	names := []string{strategyFlag, "retry-for"}
	if chosen == "" || chosen == election.Lowest.String() {
		for _, t := range groupTimings(new(election.Timing)) {
			names = append(names, t.Flag)
		}
	}
	for _, name := range names {
		o, flag := originOf(f, name), f.Lookup(name)
		all = append(all, Effective{groupsKey + "." + one.name + "." + name, valueOf(flag), o.from, o.at,
			flag.Value.String()})
	}
	return all
}
