// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/member"
)

// groupsKey is the key of the groups in the configuration file. Its value maps the name of each
// group to flags of athena group, without dashes.
const groupsKey = "groups"

// Hyperledger Fabric selects the strategy with two flags in core.yaml.
const (
	fabricElection = "useLeaderElection"
	fabricLeader   = "orgLeader"
)

// fabricDurations maps the durations of core.yaml to flags of athena group.
var fabricDurations = map[string]string{
	"startupGracePeriod":       "grace",
	"membershipSampleInterval": "sample",
	"leaderAliveThreshold":     "alive",
	"leaderElectionDuration":   "campaign",
}

// fileGroup is a group in a configuration file.
type fileGroup struct {
	file   string
	name   string
	values []fileValue
}

// applyTo sets the flags of athena group that are not set.
func (g fileGroup) applyTo(found *faults) {
	if err := fromFile(found.flags, g.file, g.values); err != nil {
		found.list = append(found.list, err)
	}
}

// CheckGroups checks the groups of a file that configures no node, and returns their names. If the
// flags f, the variables or the file configure a node, it returns neither names nor an error.
func CheckGroups(f *pflag.FlagSet, getenv func(string) string) (names []string, err error) {
	isNode := false
	f.Visit(func(flag *pflag.Flag) { isNode = isNode || flag.Name != ConfigFlag })
	for _, name := range Settable(Flags()) {
		ofClients := name == ConfigFlag || slices.Contains(ClientFlags, name)
		isNode = isNode || !ofClients && getenv(VariableOf(name)) != ""
	}
	path := cmp.Or(f.Lookup(ConfigFlag).Value.String(), getenv(VariableOf(ConfigFlag)))
	content, err := fileContent(path)
	if err != nil || isNode {
		return nil, nil // Settle reports the error
	}
	p := parseFile(path, content)
	found := &faults{flags: f}
	for _, one := range p.faults {
		isNode = isNode || one.flag != groupsKey
		found.list = append(found.list, one.err)
	}
	if isNode || len(p.values) > 0 {
		return nil, nil
	}
	for _, g := range p.groups {
		names = append(names, g.name)
		checkGroup(g, found)
	}
	return names, found.joinedErr()
}

// groupFlags returns the flags that a group in the file may set, including the flags of Fabric.
func groupFlags() *pflag.FlagSet {
	f := pflag.NewFlagSet("group", pflag.ContinueOnError)
	new(Group).Define(f)
	f.Bool(fabricElection, false, "")
	f.Bool(fabricLeader, false, "")
	for name := range fabricDurations {
		f.Duration(name, 0, "")
	}
	return f
}

// readGroups reads the value of groupsKey.
func (p *fileParser) readGroups(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		p.addFault(n.Line, n.Column, groupsKey,
			"groups: must have lines of the form NAME: {strategy: lowest}")
		return
	}
	first := map[string]int{} // line of the first occurrence of a name
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := key.Value
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			p.addFault(key.Line, key.Column, groupsKey, "invalid name of a group: must be text: "+
				"put it in quotes")
		case name == "" || len(name) > election.MaxGroupBytes || !member.IsPrintable(name):
			p.addFault(key.Line, key.Column, groupsKey, "group %.100q: must have 1 to %d printable "+
				"characters", name, election.MaxGroupBytes)
		case first[name] > 0:
			p.addFault(key.Line, key.Column, groupsKey, "%.100q: duplicate group, first in line %d: "+
				"remove one of them", name, first[name])
		default:
			first[name] = key.Line
			p.groups = append(p.groups, fileGroup{p.name, name, p.readGroup(value)})
		}
	}
}

// readGroup returns the values of one group.
func (p *fileParser) readGroup(n *yaml.Node) []fileValue {
	one := newFileParser(p.name, "group", groupFlags())
	one.readMapping(n)
	values := one.translateFabric()
	for _, f := range one.faults {
		p.faults = append(p.faults, fault{groupsKey, f.err})
	}
	return values
}

// translateFabric translates the keys of Fabric to flags of athena group.
func (p *fileParser) translateFabric() (own []fileValue) {
	isTrue := map[string]bool{}
	for _, v := range p.values {
		isTrue[v.flag] = strings.EqualFold(v.texts[0], "true")
	}
	strategy := election.Standby
	switch elects, leads := isTrue[fabricElection], isTrue[fabricLeader]; {
	case elects && leads:
		p.addFault(p.first[fabricLeader], 1, "", "%s and %s are both true: to elect a leader, "+
			"set %[2]s: false; to always lead here, set %[1]s: false", fabricElection, fabricLeader)
	case elects:
		strategy = election.Lowest
	case leads:
		strategy = election.Static
	}
	chosen := "" // the key that determines the strategy
	for _, v := range p.values {
		key := v.flag
		switch flag, isDuration := fabricDurations[key]; {
		case key == fabricElection || key == fabricLeader:
			if chosen != "" {
				continue
			}
			chosen = key
			v.flag, v.texts, v.key = strategyFlag, []string{strategy.String()}, key
		case isDuration:
			v.flag, v.key = flag, key
		}
		if line := p.first[v.flag]; v.flag != key && line > 0 {
			p.addFault(v.lines[0], 1, "", "%s contradicts %s in line %d: remove one of them", key, v.flag,
				line)
		}
		own = append(own, v)
	}
	// core.yaml contains the durations even if there is no election.
	return slices.DeleteFunc(own, func(v fileValue) bool {
		_, isDuration := fabricDurations[v.key]
		return isDuration && chosen != "" && strategy != election.Lowest
	})
}

// place returns the file, the line and the key that set element i of a value.
func (v fileValue) place(file string, i int) string {
	place := fmt.Sprintf("%s:%d", file, v.lines[i])
	if v.key != "" {
		place += ": " + v.key
	}
	return place
}
