// SPDX-License-Identifier: Apache-2.0

package steplog

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// Message is a message between nodes. Its JSON contains the name of its kind, and a list of the
// records of each state.
type Message message.Message

// Durable is the content of a store. Its JSON contains a list of the records of each state.
type Durable paxos.Durable

// state is a state in JSON.
type state struct {
	member.State
	Records []member.Record `json:",omitempty"` // replaces State.Records
}

// accepted is an accepted value in JSON.
type accepted struct {
	paxos.Accepted
	State state
}

// durable is a Durable in JSON.
type durable struct {
	paxos.Durable
	Accepted accepted
	Held     state
}

// These types are the JSON form of the message bodies that contain a state. Each field replaces the
// field of the same name in the embedded body.
type (
	query struct {
		message.LeaderQuery
		Held state
	}
	proposal struct {
		message.Proposal
		State state
	}
	vote struct {
		message.Vote
		Accepted accepted
		State    state
	}
	elected struct {
		message.LeaderElected
		State state
	}
	alignment struct{ State state }
	relayed   struct{ Message Message }
)

// encoded is a message in JSON.
type encoded struct {
	From    member.Identity
	To      member.Address
	Claim   member.Claim     `json:",omitzero"`
	Cluster member.ClusterID `json:",omitzero"`
	Kind    string
	Body    any
}

// MarshalJSON implements json.Marshaler.
func (m Message) MarshalJSON() ([]byte, error) {
	e := encoded{m.From, m.To, m.Claim, m.Cluster, m.Body.Kind().String(), m.Body}
	switch b := m.Body.(type) {
	case message.LeaderQuery:
		e.Body = query{b, newState(b.Held)}
	case message.Proposal:
		e.Body = proposal{b, newState(b.State)}
	case message.Vote:
		e.Body = vote{b, newAccepted(b.Accepted), newState(b.State)}
	case message.LeaderElected:
		e.Body = elected{b, newState(b.State)}
	case message.ClusterAlignment:
		e.Body = alignment{newState(b.State)}
	case message.Relayed:
		e.Body = relayed{Message(b.Message)}
	}
	return json.Marshal(e)
}

// bodies lists every body that UnmarshalJSON reads into its own type.
var bodies = []message.Body{
	message.Greet{}, message.LeaderResponse{}, message.JoinClusterRequest{},
	message.JoinClusterResponse{}, message.MemberStatusUpdate{}, message.LeaderKeepAlive{},
	message.LeaderKeepAliveAck{}, message.SeedKeepAlive{}, message.SeedKeepAliveAck{},
	message.LeaderRelieve{}, message.ReJoinCluster{}, message.LeaderStatusQuery{},
	message.LeaderStatusQueryResponse{}, message.MemberLeave{}, message.RecordRequest{},
	message.RecordResponse{}, message.RecordUpdate{}, message.MemberTraits{},
	message.RunEnded{},
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Message) UnmarshalJSON(text []byte) error {
	var raw json.RawMessage
	e := encoded{Body: &raw}
	if err := json.Unmarshal(text, &e); err != nil {
		return err
	}
	m.From, m.To, m.Claim, m.Cluster = e.From, e.To, e.Claim, e.Cluster
	var err error
	m.Body, err = decodeBody(e.Kind, raw)
	return err
}

func decodeBody(kind string, raw []byte) (message.Body, error) {
	switch kind {
	case "LeaderQuery":
		b, err := decode[query](raw)
		return b.body(), err
	case "Proposal":
		b, err := decode[proposal](raw)
		return b.body(), err
	case "Vote":
		b, err := decode[vote](raw)
		return b.body(), err
	case "LeaderElected":
		b, err := decode[elected](raw)
		return b.body(), err
	case "Relayed":
		b, err := decode[relayed](raw)
		return message.Relayed{Message: message.Message(b.Message)}, err
	case "ClusterAlignment":
		b, err := decode[alignment](raw)
		return b.body(), err
	}
	for _, b := range bodies {
		if b.Kind().String() == kind {
			v := reflect.New(reflect.TypeOf(b))
			err := json.Unmarshal(raw, v.Interface())
			return v.Elem().Interface().(message.Body), err
		}
	}
	return nil, fmt.Errorf("steplog: unknown message %q", kind)
}

func decode[T any](raw []byte) (v T, err error) {
	err = json.Unmarshal(raw, &v)
	return v, err
}

func (q query) body() message.Body {
	q.LeaderQuery.Held = q.Held.value()
	return q.LeaderQuery
}

func (p proposal) body() message.Body {
	p.Proposal.State = p.State.value()
	return p.Proposal
}

func (v vote) body() message.Body {
	v.Vote.State = v.State.value()
	v.Vote.Accepted = v.Accepted.value()
	return v.Vote
}

func (e elected) body() message.Body {
	e.LeaderElected.State = e.State.value()
	return e.LeaderElected
}

func (a alignment) body() message.Body { return message.ClusterAlignment{State: a.State.value()} }

// MarshalJSON implements json.Marshaler.
func (d Durable) MarshalJSON() ([]byte, error) {
	return json.Marshal(durable{paxos.Durable(d), newAccepted(d.Accepted), newState(d.Held)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Durable) UnmarshalJSON(text []byte) error {
	v, err := decode[durable](text)
	v.Durable.Accepted, v.Durable.Held = v.Accepted.value(), v.Held.value()
	*d = Durable(v.Durable)
	return err
}

func newAccepted(a paxos.Accepted) accepted { return accepted{a, newState(a.State)} }

func newState(s member.State) state {
	v := state{State: s}
	for r := range s.Records.All() {
		v.Records = append(v.Records, r)
	}
	return v
}

func (a accepted) value() paxos.Accepted {
	a.Accepted.State = a.State.value()
	return a.Accepted
}

// value returns the member.State. It drops the records if they are not sorted.
func (s state) value() member.State {
	s.State.Records, _ = member.NewRecords(s.Records)
	return s.State
}
