// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

// trust is the period during which a process may act as the owner of one record, in global time. A
// paused process keeps its trust.
type trust struct {
	token member.Token // zero without trust
	until int64        // the end; kept after it has passed
}

// grant records which run trusted a record, and with which token.
type grant struct {
	token member.Token
	by    member.Identity
}

// setting identifies a change of a key by its token.
type setting struct {
	key   string
	token member.Token
}

// trusts is the trust of all processes, by key.
type trusts struct {
	of     map[string][]trust
	tokens map[string]grant // the greatest token that was trusted, by key
	set    map[setting]bool // changes confirmed by answers to requests
	// unsure contains, for each process whose clock had stopped, the time until which its trust is not
	// checked. Such a process does not know how late it is. If such a process led, unsureOf is the
	// time until which no trust is checked, because the leader may extend holds without authority.
	unsure   []int64
	unsureOf int64 // all
	asleep   int   // number of leaders whose clocks are stopped
}

// holding is the trust in one record as package cluster shows it.
type holding struct {
	token member.Token
	until time.Time
}

// checkHoldings checks invariant I10 for the holdings that package cluster would show after a step.
// A holding begins when the machine trusts the record, because an application may ask at any time.
// Afterwards it is updated only by a step that reports a change or an answer, or that moves the end
// of the trust.
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

// trustOf returns the trust of a process in a record.
func (k *checker) trustOf(p int, key string) *trust {
	t := &k.trusts
	if t.of == nil {
		t.of, t.tokens = map[string][]trust{}, map[string]grant{}
	}
	if t.of[key] == nil {
		t.of[key] = make([]trust, len(k.trusts.unsure))
	}
	return &t.of[key][p]
}

// noteSet records a change that an answer confirmed, and checks that no two changes have
// the same token.
func (k *checker) noteSet(p *process, r message.RecordRequest, token member.Token) {
	for _, c := range r.Changes {
		if c.Drop {
			continue
		}
		s := setting{c.Key, token}
		if k.trusts.set[s] {
			k.noteBroken("records",
				"two requests got the answer that they set %s by %v; the second one is from %s",
				c.Key, token, p.cfg.Name)
		}
		k.trusts.set[s] = true
	}
}

func (k *checker) endRecordTrust(p int, key string) {
	if t := k.trustOf(p, key); !t.token.IsZero() {
		t.token, t.until = member.Token{}, min(t.until, k.now)
	}
}

// checkTrusted records that a process trusts a record until a global time. Overlapping trust of two
// processes violates invariant I10. A new trust with a token that is less than an earlier token, or
// that another run has used, violates it too.
func (k *checker) checkTrusted(p *process, key string, token member.Token, until int64) {
	mine := k.trustOf(p.index, key)
	gained := mine.token != token || mine.until <= k.now
	mine.token, mine.until = token, until
	if k.now < k.trusts.unsureOf || k.now < k.trusts.unsure[p.index] {
		return
	}
	for i, o := range k.trusts.of[key] {
		if i != p.index && !o.token.IsZero() && o.until > k.now && k.now >= k.trusts.unsure[i] {
			k.noteBroken("I10", "%s trusts record %s by %v, but %v trusts it by %v until %v",
				p.cfg.Name, key, token, k.holderName(i), o.token, time.Duration(o.until))
		}
	}
	last := k.trusts.tokens[key]
	if gained && (token.Less(last.token) || token == last.token && last.by != p.identity()) {
		k.noteBroken("I10", "%s trusts record %s by %v after %v trusted it by %v",
			p.cfg.Name, key, token, last.by, last.token)
	}
	if last.token.Less(token) {
		k.trusts.tokens[key] = grant{token, p.identity()}
	}
}

// holderName names a process or a worker.
func (k *checker) holderName(i int) string {
	if i < len(k.homes) {
		return k.homes[i].String()
	}
	return fmt.Sprintf("w%d", i-len(k.homes)+1)
}

// endTrust records that a process is down and trusts no record.
func (k *checker) endTrust(p int) {
	for key := range k.trusts.of {
		k.endRecordTrust(p, key)
	}
}

// noteAsleep records that the clock of a process stopped, and whether it leads.
func (k *checker) noteAsleep(p int, leads bool) {
	k.trusts.unsure[p] = never
	if leads {
		k.trusts.asleep++
		k.trusts.unsureOf = never
	}
}

// noteAwake records that the clock of a process started again. The process's own trust ends within
// one HoldTimeout. If the process led, it may extend the trust of others for up to two leases. The
// extended trust then lasts for one HoldTimeout.
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
