// SPDX-License-Identifier: Apache-2.0

// Command events is a chat between the members of a cluster of three. It sends typed events to one
// member and to all, and prints changes of members and leaders.
//
//	go run ./examples/events 127.0.0.1:7001 127.0.0.1:7001 127.0.0.1:7002 127.0.0.1:7003
//
// The first address is that of the process, the others are the seeds. Start two more processes with
// the other addresses. A line is sent to all members, or only to one if the line begins with its
// address:
//
//	hello
//	127.0.0.1:7002 hello to you
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// Roar is for all members. It is sent as "Roar", with its exported fields.
type Roar struct{ Text string }

// Whisper is for a single member.
type Whisper struct{ Text string }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) < 3 {
		log.Fatal("usage: events ADDRESS SEED...")
	}
	cfg := cluster.Config{Addr: os.Args[1], Seeds: os.Args[2:], Size: 3, Memory: true}
	if err := chat(ctx, cfg, os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// chat runs one member until ctx is done or its input ends.
func chat(
	ctx context.Context, cfg cluster.Config, in io.Reader, out io.Writer, opts ...cluster.Option,
) error {
	cfg.Receiver = handlers(out)
	node, err := cluster.Start(ctx, cfg, opts...)
	if err != nil {
		return err
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			select {
			case lines <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for more := true; more; {
		var line string
		select {
		case <-ctx.Done():
			more = false
		case line, more = <-lines:
			if err := say(ctx, node, line); err != nil {
				fmt.Fprintln(out, "not sent:", err)
			}
		}
	}
	return node.Leave(context.WithoutCancel(ctx))
}

// handlers prints the events that arrive. Events of one type are handled in the order in which they
// were sent. Events of different types are handled concurrently. A handler that replies gets its
// node from cluster.FromContext.
func handlers(out io.Writer) *receiver.Mux {
	rx := receiver.NewMux()
	receiver.Handle(rx, func(_ context.Context, from member.Member, m Roar) error {
		_, err := fmt.Fprintf(out, "%s: %s\n", from.Name, m.Text)
		return err
	})
	receiver.Handle(rx, func(_ context.Context, from member.Member, m Whisper) error {
		_, err := fmt.Fprintf(out, "%s to you: %s\n", from.Name, m.Text)
		return err
	})
	// Local events arrive in the same way. No other member can send them.
	receiver.Handle(rx, func(_ context.Context, _ member.Member, e cluster.MemberChanged) error {
		_, err := fmt.Fprintln(out, "*", e)
		return err
	})
	receiver.Handle(rx, func(_ context.Context, _ member.Member, e cluster.LeaderChanged) error {
		_, err := fmt.Fprintln(out, "*", e)
		return err
	})
	return rx
}

// say sends a line to its recipients.
func say(ctx context.Context, node *cluster.Node, line string) error {
	first, rest, _ := strings.Cut(line, " ")
	switch to, err := member.ParseAddress(first); {
	case line == "":
		return nil
	case err != nil: // not an address
		return node.Broadcast(ctx, Roar{line})
	default:
		err := node.Send(ctx, to, Whisper{rest})
		if errors.Is(err, cluster.ErrNotActive) {
			return fmt.Errorf("%w; members: %s", err, names(node.Members()))
		}
		return err
	}
}

func names(members []member.Member) string {
	var list []string
	for _, m := range members {
		list = append(list, m.Address.String())
	}
	return strings.Join(list, " ")
}
