// SPDX-License-Identifier: Apache-2.0

package test

import (
	"slices"
	"sync"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/statemachine"
)

var conditions = sync.OnceValue(func() []conditionWord {
	all := slices.Concat(
		leaderConditions(), nodeConditions(), happeningConditions(), meetingConditions())
	for i := range all {
		all[i].pattern = compile(all[i].form)
	}
	return all
})

func conditionForms() (out []string) {
	for _, c := range conditions() {
		out = append(out, c.form)
	}
	return out
}

// leading lists the processes with authority.
func (p *player) leading() (out []int) {
	for i := range p.cluster().Processes() {
		if p.c.Authority(i) != 0 {
			out = append(out, i)
		}
	}
	return out
}

func leaderConditions() []conditionWord {
	return []conditionWord{
		{form: "NODE leads with authority", holds: func(p *player, w words) bool {
			return p.c.Authority(w.node(0)) != 0
		}},
		{form: "NODE leads version NUMBER", holds: func(p *player, w words) bool {
			return p.c.Authority(w.node(0)) == uint64(w.number(1))
		}},
		{form: "one of NODES leads with authority", holds: func(p *player, w words) bool {
			return slices.ContainsFunc(w.nodes(0), func(i int) bool { return p.c.Authority(i) != 0 })
		}},
		{form: "one of NODES leads version NUMBER", holds: func(p *player, w words) bool {
			return slices.ContainsFunc(w.nodes(0), func(i int) bool {
				return p.c.Authority(i) == uint64(w.number(1))
			})
		}},
		{form: "nobody leads with authority", holds: func(p *player, _ words) bool {
			return len(p.leading()) == 0
		}},
		{form: "two with authority", holds: func(p *player, _ words) bool {
			return len(p.leading()) > 1
		}},
		{form: "all are active", holds: func(p *player, _ words) bool { return p.cluster().Settled() }},
		{form: "at most NUMBER leaders were chosen", holds: func(p *player, w words) bool {
			return p.led <= w.number(0)
		}},
		{form: "at most NUMBER moves of members", holds: func(p *player, w words) bool {
			return p.moves <= w.number(0)
		}},
		{form: "the register refuses a write", holds: func(p *player, _ words) bool {
			_, refused := p.cluster().Register()
			return refused > 0
		}},
	}
}

func nodeConditions() []conditionWord {
	return []conditionWord{
		{form: "NODE is ROLE", holds: func(p *player, w words) bool {
			i, role := w.node(0), w.text[1]
			switch role {
			case "up":
				return p.c.Up(i)
			case "down":
				return !p.c.Up(i)
			}
			return p.c.Up(i) && p.c.View(i).Role == roles[role]
		}},
		{form: "NODE follows NODE", holds: func(p *player, w words) bool {
			v := p.c.View(w.node(0))
			return v.Role == member.Following && v.Leader == p.c.Address(w.node(1))
		}},
		{form: "NODE shows NODE STATUS", holds: func(p *player, w words) bool {
			e, _ := p.c.View(w.node(0)).Member(p.c.Address(w.node(1)))
			return e.Status.String() == w.text[2]
		}},
		{form: "NODE does not show NODE", holds: func(p *player, w words) bool {
			_, ok := p.c.View(w.node(0)).Member(p.c.Address(w.node(1)))
			return !ok
		}},
		{form: "NODE holds version NUMBER", holds: func(p *player, w words) bool {
			return p.c.Durable(w.node(0)).Held.Version == uint64(w.number(1))
		}},
		{form: "NODE shows version NUMBER", holds: func(p *player, w words) bool {
			return p.c.View(w.node(0)).Version == uint64(w.number(1))
		}},
		{form: "NODE holds nothing", holds: func(p *player, w words) bool {
			return p.c.Durable(w.node(0)).Held.IsZero()
		}},
		{form: "NODE promised version NUMBER", holds: func(p *player, w words) bool {
			return p.c.Durable(w.node(0)).Promised.Version == uint64(w.number(1))
		}},
		{form: "NODE accepted version NUMBER", holds: func(p *player, w words) bool {
			return p.c.Durable(w.node(0)).Accepted.ID.Version == uint64(w.number(1))
		}},
	}
}

// happened returns a condition that holds if a happening has occurred since the last line "from
// here on". The function what converts the words of the condition to that happening.
func happened(what func(w words) happening) func(*player, words) bool {
	return func(p *player, w words) bool {
		h := what(w)
		h.by = w.node(0) + 1
		return p.count[h] > 0
	}
}

func stops(why error) func(*player, words) bool {
	return happened(func(words) happening { return happening{what: "stops", reason: why.Error()} })
}

func happeningConditions() []conditionWord {
	return []conditionWord{
		{form: "NODE sends NODE KIND", holds: happened(func(w words) happening {
			return happening{about: w.node(1) + 1, what: "sends", kind: w.text[2]}
		})},
		{form: "NODE refuses NODE: REASON", holds: happened(func(w words) happening {
			return happening{about: w.node(1) + 1, what: "refuses", reason: w.text[2]}
		})},
		{form: "NODE drops KIND of NODE: REASON", holds: happened(func(w words) happening {
			return happening{about: w.node(2) + 1, what: "drops", kind: w.text[1], reason: w.text[3]}
		})},
		{form: "NODE moves NODE to STATUS", holds: happened(func(w words) happening {
			return happening{about: w.node(1) + 1, what: "moves to", reason: w.text[2]}
		})},
		{form: "NODE DECISION", holds: happened(func(w words) happening {
			return happening{what: w.text[1]}
		})},
		{form: "somebody DECISION", holds: func(p *player, w words) bool {
			return p.count[happening{what: w.text[0]}] > 0
		}},
		{form: "NODE stops: it has left", holds: stops(statemachine.ErrLeft)},
		{form: "NODE stops: a later run has its address", holds: stops(statemachine.ErrAddressInUse)},
	}
}

func meetingConditions() []conditionWord {
	return []conditionWord{
		{form: "NODE uses the connection that NODE dialed", holds: func(p *player, w words) bool {
			return p.meets != nil && p.meets.uses(w.node(0)) == colours[w.node(1)]
		}},
		{form: "NODE uses no connection", holds: func(p *player, w words) bool {
			return p.meets != nil && p.meets.uses(w.node(0)) == ""
		}},
		{form: "no greet is on its way", holds: func(p *player, _ words) bool {
			return p.meets != nil && len(p.meets.waiting()) == 0
		}},
	}
}
