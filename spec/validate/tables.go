// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/steplog"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// table numbers the Quint literals of one type. Number 0 is the literal of the empty value.
type table struct {
	index map[string]int
	rows  []string
}

func newTable(nothing string) *table {
	t := &table{index: map[string]int{}}
	t.add(nothing)
	return t
}

func (t *table) add(literal string) int64 {
	i, ok := t.index[literal]
	if !ok {
		i = len(t.rows)
		t.index[literal] = i
		t.rows = append(t.rows, literal)
	}
	return int64(i)
}

func (t *table) String() string { return "[" + strings.Join(t.rows, ",") + "]" }

// These are the Quint literals of the constants with the same names in athena.qnt.
const (
	nobody   = "{a:0,s:0,i:0}"
	noNumber = "{v:0,r:0}"
	noBallot = "{v:0,n:0,by:" + nobody + "}"
	nothing  = "{v:0,r:0,leader:0,c:0,roster:Map(),recs:Map()}"
	noValue  = "{b:" + noBallot + ",base:" + noNumber + ",state:" + nothing + "}"
	noCfg    = "{lease:0,hold:0,leader:0,beat:0,ttl:0,ownLease:0,ownHold:0,self:0,given:0}"
	noKeep   = "{from:" + nobody + ",dest:0,ch:false,v:0,shows:" + noNumber +
		",ev:0,ei:0,clock:0,own:0}"
	noRequest = "{by:" + nobody + ",id:0,v:0,sets:Map(),drops:Set(),free:Set(),tokens:Map()}"
)

// literals writes values as Quint literals, with numbers in place of names. The numbers of
// addresses have the order of the addresses.
type literals struct {
	addresses map[member.Address]int
	stores    map[member.StoreID]int
	clusters  map[member.ClusterID]int
	keys      map[string]int

	runs, ballots, states, values, sets, ids, keeps, requests, cfgs *table
}

func newLiterals(steps []steplog.Step) *literals {
	l := &literals{
		addresses: map[member.Address]int{}, stores: map[member.StoreID]int{},
		clusters: map[member.ClusterID]int{}, keys: map[string]int{},
		runs: newTable(nobody), ballots: newTable(noBallot), states: newTable(nothing),
		values: newTable(noValue), sets: newTable("Set(" + nobody + ")"),
		ids: newTable("Set((" + nobody + ",0))"), keeps: newTable(noKeep),
		requests: newTable(noRequest), cfgs: newTable(noCfg),
	}
	seen := map[member.Address]bool{}
	for _, s := range steps {
		seen[s.Node.Address] = true
		if s.Config != nil {
			for _, a := range s.Config.Seeds {
				seen[a] = true
			}
		}
		for _, m := range s.Sent {
			seen[m.From.Address], seen[m.To] = true, true
		}
		if s.Saved != nil {
			for _, m := range s.Saved.Held.Roster {
				seen[m.Address] = true
			}
		}
	}
	delete(seen, member.Address{})
	for i, a := range slices.SortedFunc(maps.Keys(seen), member.Address.Compare) {
		l.addresses[a] = i + 1
	}
	return l
}

// numberOf returns the number of a key, which is 0 for the zero key.
func numberOf[K comparable](m map[K]int, key K) int {
	var zero K
	if key == zero {
		return 0
	}
	if _, ok := m[key]; !ok {
		m[key] = len(m) + 1
	}
	return m[key]
}

func (l *literals) numberAddress(a member.Address) int64 { return int64(numberOf(l.addresses, a)) }
func (l *literals) numberStore(s member.StoreID) int64   { return int64(numberOf(l.stores, s)) }
func (l *literals) numberKey(k string) int64             { return int64(numberOf(l.keys, k)) }

// addRun adds a run to the table of runs and returns its number.
func (l *literals) addRun(i member.Identity) int64 { return l.runs.add(l.writeRun(i)) }

func (l *literals) writeRun(i member.Identity) string {
	return fmt.Sprintf("{a:%d,s:%d,i:%d}", l.numberAddress(i.Address), l.numberStore(i.StoreID),
		i.Incarnation)
}

func (l *literals) writeNumber(n member.Number) string {
	return fmt.Sprintf("{v:%d,r:%d}", n.Version, n.Revision)
}

func (l *literals) writeBallot(id paxos.ID) string {
	return fmt.Sprintf("{v:%d,n:%d,by:%s}", id.Version, id.Ballot.Round, l.writeRun(id.Ballot.Run()))
}

func (l *literals) writeState(s member.State) string {
	if s.IsZero() {
		return nothing
	}
	var roster, records []string
	for _, m := range s.Roster {
		roster = append(roster, fmt.Sprintf("%d->{s:%d,i:%d,st:%d,gone:%v}", l.numberAddress(m.Address),
			l.numberStore(m.StoreID), m.Incarnation, m.Status, m.Gone))
	}
	for r := range s.Records.All() {
		records = append(records, fmt.Sprintf("%d->{o:%s,t:%s,x:%v}", l.numberKey(r.Key),
			l.writeRun(r.Owner), l.writeNumber(member.Number(r.Token)), r.Revoked))
	}
	return fmt.Sprintf("{v:%d,r:%d,leader:%d,c:%d,roster:Map(%s),recs:Map(%s)}", s.Version, s.Revision,
		l.numberAddress(s.Leader), numberOf(l.clusters, s.Cluster), strings.Join(roster, ","),
		strings.Join(records, ","))
}

func (l *literals) writeValue(a paxos.Accepted) string {
	if a.IsZero() {
		return noValue
	}
	return fmt.Sprintf("{b:%s,base:%s,state:%s}", l.writeBallot(a.ID), l.writeNumber(a.Base),
		l.writeState(a.State))
}

func (l *literals) writeSet(runs []member.Identity) string {
	var list []string
	for _, r := range runs {
		list = append(list, l.writeRun(r))
	}
	slices.Sort(list)
	return "Set(" + strings.Join(slices.Compact(list), ",") + ")"
}

func (l *literals) writeKeep(m steplog.Message) string {
	b := m.Body.(message.LeaderKeepAlive)
	// A leader learns nothing from a message that claims another leader.
	chosen := m.Claim.Chosen && m.Claim.Leader == m.To
	return fmt.Sprintf("{from:%s,dest:%d,ch:%v,v:%d,shows:%s,ev:%d,ei:%d,clock:%d,own:%d}",
		l.writeRun(m.From), l.numberAddress(m.To), chosen, m.Claim.Version, l.writeNumber(b.Number),
		b.Echo.Version, b.Echo.Incarnation, b.Echo.Clock, b.Stamp.Clock)
}

// writeRequest writes a request; leader is the version of the leadership that may apply it.
func (l *literals) writeRequest(by member.Identity, r message.RecordRequest, leader uint64) string {
	var sets, drops, free, tokens []string
	for _, c := range r.Changes {
		if c.Drop {
			drops = append(drops, fmt.Sprint(l.numberKey(c.Key)))
		} else {
			sets = append(sets, fmt.Sprintf("%d->%v", l.numberKey(c.Key), c.Owned))
		}
	}
	for _, c := range r.Conditions {
		if c.Token.IsZero() {
			free = append(free, fmt.Sprint(l.numberKey(c.Key)))
		} else {
			tokens = append(tokens, fmt.Sprintf("%d->%s", l.numberKey(c.Key),
				l.writeNumber(member.Number(c.Token))))
		}
	}
	return fmt.Sprintf("{by:%s,id:%d,v:%d,sets:Map(%s),drops:Set(%s),free:Set(%s),tokens:Map(%s)}",
		l.writeRun(by), r.ID, leader, strings.Join(sets, ","), strings.Join(drops, ","),
		strings.Join(free, ","), strings.Join(tokens, ","))
}

func (l *literals) writeRequestIDs(list []taken) string {
	slices.SortFunc(list, func(a, b taken) int {
		return cmp.Or(cmp.Compare(l.writeRun(a.by), l.writeRun(b.by)), cmp.Compare(a.id, b.id))
	})
	var text []string
	for _, t := range list {
		text = append(text, fmt.Sprintf("(%s,%d)", l.writeRun(t.by), t.id))
	}
	return "Set(" + strings.Join(slices.Compact(text), ",") + ")"
}

// writeTimings returns the timings of a run that accepts other too; other is zero for one set.
func (l *literals) writeTimings(own, other message.Timings) string {
	t, shorter := own.Longer(other), own.Shorter(other)
	return fmt.Sprintf("{lease:%d,hold:0,leader:%d,beat:%d,ttl:%d,ownLease:%d,ownHold:%d,self:%d,"+
		"given:%d}", t.LeaseTimeout, t.LeaderTimeout, t.HeartbeatTimeout, t.TTLTimeout,
		own.LeaseTimeout, own.HoldTimeout(), min(own.LeaseTimeout, shorter.HoldTimeout()),
		shorter.HoldTimeout())
}

// writeTables returns the tables as a Quint record.
func (l *literals) writeTables() string {
	return fmt.Sprintf("{runs:%v,ballots:%v,states:%v,values:%v,sets:%v,ids:%v,keeps:%v,requests:%v,"+
		"cfgs:%v}", l.runs, l.ballots, l.states, l.values, l.sets, l.ids, l.keeps, l.requests, l.cfgs)
}
