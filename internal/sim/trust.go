// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// trust is what one process may do in the name of one record, in global time. A process
// that is paused keeps it, as it keeps authority.
type trust struct {
	token member.Token // zero while it has none
	until int64        // its end; kept when it is over
}

// grant is a token with the run that trusted a record by it.
type grant struct {
	token member.Token
	by    member.Identity
}

// setting is one of a key, by its token.
type setting struct {
	key   string
	token member.Token
}

// trusts are those of all processes, by key.
type trusts struct {
	of     map[string][]trust
	tokens map[string]grant // the greatest that was trusted
	set    map[setting]bool // what requests were told to have set
	// unsure is until when nothing is promised of a process whose clock stood still: it
	// does not know how late it is. Of nobody where that led: it extended what it had no
	// authority for.
	unsure   []int64
	unsureOf int64 // all
	asleep   int   // leaders whose clocks stand still
}

// holding is the trust in one record that a Holding of package cluster shows.
type holding struct {
	token member.Token
	until time.Time
}

// checkHoldings checks what each record's Holding in package cluster would show after a step
// (I10). A Holding begins whenever the machine trusts the record, since an application may
// ask at any time. It follows the machine only in a step that reports a change or an
// answer, or that moves the end of trust.
func (k *checker) checkHoldings(p *process, keys []string, out statemachine.Output) {
	now, until := p.clock.at(k.now), p.machine.TrustsUntil()
	follows := out.Changed || len(out.Answers) > 0 || !until.Equal(p.trustsUntil)
	p.trustsUntil = until
	for len(p.holdings) < len(keys) {
		p.holdings = append(p.holdings, holding{})
	}
	for i, key := range keys {
		h := &p.holdings[i]
		if token, until := p.machine.Holds(now, key); follows || !token.IsZero() {
			*h = holding{token, until}
		}
		if h.token.IsZero() || !now.Before(h.until) {
			k.endRecordTrust(p.index, key)
			continue
		}
		k.checkTrusted(p, key, h.token, p.clock.globalTime(h.until))
	}
}

// trustOf is that of a process in a record.
func (k *checker) trustOf(p int, key string) *trust {
	t := &k.trusts
	if t.of == nil {
		t.of, t.tokens = map[string][]trust{}, map[string]grant{}
	}
	if t.of[key] == nil {
		t.of[key] = make([]trust, len(k.homes))
	}
	return &t.of[key][p]
}

// noteSet notes what a request was told to have set: no other one, by the same token.
func (k *checker) noteSet(p *process, r message.RecordRequest, token member.Token) {
	for _, c := range r.Changes {
		if c.Drop {
			continue
		}
		s := setting{c.Key, token}
		if k.trusts.set[s] {
			k.noteBroken("records", "%s was told to have set %s by %v, as another request was before",
				p.cfg.Name, c.Key, token)
		}
		k.trusts.set[s] = true
	}
}

func (k *checker) endRecordTrust(p int, key string) {
	if t := k.trustOf(p, key); !t.token.IsZero() {
		t.token, t.until = member.Token{}, min(t.until, k.now)
	}
}

// checkTrusted notes that a process trusts a record until a global time. Two whose trust
// overlaps break I10, and so does a token that is not greater than one before.
func (k *checker) checkTrusted(p *process, key string, token member.Token, until int64) {
	mine := k.trustOf(p.index, key)
	gained := mine.token != token || mine.until <= k.now
	mine.token, mine.until = token, until
	if k.now < k.trusts.unsureOf || k.now < k.trusts.unsure[p.index] {
		return
	}
	for i, o := range k.trusts.of[key] {
		if i != p.index && !o.token.IsZero() && o.until > k.now && k.now >= k.trusts.unsure[i] {
			k.noteBroken("I10", "%s trusts %s by %v, while %v trusts it by %v until %v", p.cfg.Name, key,
				token, k.homes[i], o.token, time.Duration(o.until))
		}
	}
	last := k.trusts.tokens[key]
	if gained && (token.Less(last.token) || token == last.token && last.by != p.identity()) {
		k.noteBroken("I10", "%s trusts %s by %v after %v trusted it by %v",
			p.cfg.Name, key, token, last.by, last.token)
	}
	if last.token.Less(token) {
		k.trusts.tokens[key] = grant{token, p.identity()}
	}
}

// endTrust notes that a process is gone, and its trust with it.
func (k *checker) endTrust(p int) {
	for key := range k.trusts.of {
		k.endRecordTrust(p, key)
	}
}

// noteAsleep notes that the clock of a process stands still, and leads whether it leads.
func (k *checker) noteAsleep(p int, leads bool) {
	k.trusts.unsure[p] = never
	if leads {
		k.trusts.asleep++
		k.trusts.unsureOf = never
	}
}

// noteAwake notes that the clock of a process goes on. What it trusts ends within a hold; a
// leader extends others for some leases yet, and they trust for a hold after that.
func (k *checker) noteAwake(now int64, p int, led bool, t message.Timings) {
	k.now = now
	k.trusts.unsure[p] = k.now + int64(t.HoldTimeout())
	if led {
		a := &k.auth[p]
		a.wokeAt, a.lease = k.now, int64(message.LeaseMargin(t.LeaseTimeout))
		k.trusts.asleep--
	}
	if led && k.trusts.asleep == 0 {
		k.trusts.unsureOf = k.now + int64(2*t.LeaseTimeout+t.HoldTimeout())
	}
}
