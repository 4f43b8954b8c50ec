// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// ledger stands for data outside the cluster that the leader changes. It stores the highest token
// with its rows and refuses lower ones, because they come from a leader that has not yet noticed
// that it was replaced.
type ledger struct {
	token member.Token
	rows  []string
}

func (l *ledger) write(token member.Token, row string) error {
	if token.Less(l.token) {
		return fmt.Errorf("token %v: a leader with token %v has written", token, l.token)
	}
	l.token, l.rows = token, append(l.rows, row)
	return nil
}

// WhileLeader runs work on one member at a time, and the token guards the data that the work
// changes.
func ExampleNode_WhileLeader() {
	ctx, enough := context.WithCancel(context.Background())
	node, err := cluster.Start(ctx, cluster.Config{Addr: "127.0.0.1:7001", Size: 1},
		cluster.WithLogger(slog.New(slog.DiscardHandler)),
		// For the example only: nodes in memory.
		cluster.WithTransport(func(transport.Config) (transport.Network, error) {
			return memnet.New().Listen(member.Address{Host: "127.0.0.1", Port: 7001})
		}))
	if err != nil {
		log.Fatal(err)
	}
	var l ledger
	err = node.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
		if err := l.write(term.Token(), "work"); err != nil {
			return err
		}
		fmt.Println("wrote", l.rows, "with token", term.Token())
		enough()     // a real program keeps working
		<-ctx.Done() // until another member leads
		return context.Cause(ctx)
	})
	fmt.Println(err)
	fmt.Println(l.write(member.Token{}, "late work"))
	if err := node.Leave(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// wrote [work] with token 1000000000000
	// context canceled
	// token 0: a leader with token 1000000000000 has written
}
