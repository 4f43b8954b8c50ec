// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/messaging"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// handler implements mesh.Handler.
type handler struct {
	*messaging.Messenger
	o *Observer
}

// Greet returns the greeting. Members do not compare its size and timings with their own.
func (h handler) Greet() message.Message {
	return message.Message{
		From: h.o.self,
		Body: message.Greet{
			Cluster: h.o.cfg.Cluster, Size: 1, MinProtocol: message.Protocol,
			MaxProtocol: message.Protocol,
			Timings: message.Timings{
				HeartbeatInterval: 100 * time.Millisecond, HeartbeatTimeout: 5 * time.Second,
				LeaderTimeout: 5 * time.Second, LeaseTimeout: 5 * time.Second,
				TTLTimeout: 10 * time.Second, RetryInterval: 500 * time.Millisecond,
			},
		},
	}
}

// Greeted does nothing: the members need no introduction.
func (h handler) Greeted(message.Message) {}

func (h handler) StoreOf(member.Address) (none member.StoreID) { return none }

// Ask does nothing: members do not answer messages of an observer.
func (h handler) Ask(member.Address, member.StoreID) {}

func (h handler) Needs(member.Address) bool { return true }

// System is never called: see mesh.
func (h handler) System(member.Identity, []byte) error {
	return errors.New("observer: unexpected system frame")
}

// node implements messaging.Node.
type node struct{ *Observer }

// Members returns the members of the view and of the configuration. All but removed ones count as
// active, because this process may reach members that the followed one cannot reach.
func (o node) Members() member.Roster {
	o.mu.Lock()
	defer o.mu.Unlock()
	members := slices.Clone(o.view.Members)
	for i := range members {
		if members[i].Status != member.Removed {
			members[i].Status = member.Active
		}
	}
	for _, a := range o.seeds {
		if _, ok := members.Find(a); !ok {
			members = append(members, member.Member{
				Identity: member.Identity{Address: a}, Status: member.Active,
			})
		}
	}
	slices.SortFunc(members, func(a, b member.Member) int { return a.Address.Compare(b.Address) })
	return members
}

func (o node) Leader() messaging.Leader {
	v := o.View()
	return messaging.Leader{Address: v.Leader, Provisional: !v.Authority}
}

func (o node) FindRecord(string) (member.Record, bool) { return member.Record{}, false }

func (o node) Follow() (messaging.Report, <-chan struct{}) {
	v, _, changed := o.readView()
	return messaging.Report(v), changed
}

// WaitLeader blocks until the view has a leader with authority.
func (o node) WaitLeader(ctx context.Context) (messaging.Leadership, error) {
	for {
		o.mu.Lock()
		v, led, changed := o.view, o.led, o.changed
		o.mu.Unlock()
		if !v.Leader.IsZero() && v.Authority {
			return messaging.Leadership{
				Leader: v.Leader, Done: led, Changed: changed, Lost: leader.ErrSuperseded,
			}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return messaging.Leadership{}, context.Cause(ctx)
		case <-o.life.Done():
			return messaging.Leadership{}, messaging.ErrClosed
		}
	}
}
