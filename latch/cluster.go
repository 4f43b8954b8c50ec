// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"
	"errors"
	"fmt"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
)

// Cluster is the Store of a node: the records of its cluster. The ids of members are
// their addresses, those of Members the active ones.
func Cluster(n *cluster.Node) Store { return node{n} }

type node struct{ *cluster.Node }

func (n node) Members() (ids []string) {
	for _, m := range n.View().Members {
		if m.Status == member.Active {
			ids = append(ids, m.Address.String())
		}
	}
	return ids
}

func (n node) Records(_ context.Context, prefix string) ([]member.Record, error) {
	if err := n.Err(); err != nil {
		return nil, ended(err)
	}
	return n.Node.Records(prefix), nil
}

// ended is the error of a node that has: it never comes back.
func ended(why error) error {
	if errors.Is(why, cluster.ErrClosed) {
		return why
	}
	return fmt.Errorf("%w: %w", cluster.ErrClosed, why)
}

func (n node) Watch(ctx context.Context, prefix string) <-chan struct{} {
	changed := make(chan struct{}, 1)
	go func() {
		defer close(changed)
		for range n.WatchRecords(ctx, prefix) {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	return changed
}

func (n node) Session() Session {
	s := session{n.Node, n.Node.Session()}
	s.Lost = func(key string, now []member.Record) error { return Lost(key, s.Member(), now) }
	return s
}

type session struct {
	node *cluster.Node
	*cluster.Session
}

func (s session) Member() string { return s.node.Self().Address.String() }

func (s session) Commit(ctx context.Context, ops ...Op) (member.Token, error) {
	all := make([]cluster.Op, len(ops))
	for i, op := range ops {
		switch op.Kind {
		case Absent:
			all[i] = cluster.Absent(op.Key)
		case Held:
			all[i] = cluster.Held(op.Key, op.Token)
		case Set:
			all[i] = cluster.Set(op.Key, op.Value, nil)
		case SetOwned:
			all[i] = cluster.Set(op.Key, op.Value, s.Session)
		case Drop:
			all[i] = cluster.Drop(op.Key)
		default:
			panic(fmt.Sprintf("latch: an Op has Kind %d, which is none", op.Kind))
		}
	}
	token, err := s.node.Commit(ctx, all...)
	if err != nil && s.node.Err() != nil && !errors.Is(err, cluster.ErrUnknownOutcome) {
		err = ended(err)
	}
	return token, err
}

func (s session) Hold(
	ctx context.Context, key string, token member.Token, fn func(context.Context) error,
) error {
	h, err := s.Session.Hold(ctx, key, token)
	if err != nil {
		return err
	}
	return h.Do(ctx, fn)
}
