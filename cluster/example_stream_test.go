// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/memnet"
)

// takeFile is a stream handler. Its result shows the sender whether the whole file arrived: nil
// ends the stream normally.
func takeFile(ctx context.Context, _ member.Member, s receiver.Stream) error {
	size, err := io.Copy(io.Discard, s)
	if err != nil {
		return err // the sender gave up, or the connection ended
	}
	_, err = fmt.Fprintf(s, "%s: %d bytes", receiver.Metadata(ctx)["name"], size)
	return err
}

// sendFile sends a file and returns the answer that the handler sends when it has the whole file.
func sendFile(
	ctx context.Context, n *cluster.Node, to member.Address, name string, file io.Reader,
) (string, error) {
	s, err := n.OpenStream(ctx, to, "file", cluster.WithMetadata(map[string]string{"name": name}))
	if err != nil {
		return "", err
	}
	defer s.Close()
	if _, err := io.Copy(s, file); err != nil {
		return "", err
	}
	if err := s.CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(s)
	return string(answer), err
}

// One node sends a file to another, which confirms that it has received everything.
func ExampleNode_OpenStream() {
	rx := receiver.NewMux()
	receiver.HandleStream(rx, "file", takeFile)
	ctx := context.Background()
	node, err := cluster.Start(ctx, cluster.Config{Addr: "127.0.0.1:7001", Size: 1, Receiver: rx},
		cluster.WithLogger(slog.New(slog.DiscardHandler)),
		// For the example only: nodes in memory.
		cluster.WithTransport(func(transport.Config) (transport.Network, error) {
			return memnet.New().Listen(member.Address{Host: "127.0.0.1", Port: 7001})
		}))
	if err != nil {
		log.Fatal(err)
	}
	file := strings.NewReader(strings.Repeat("all work and no play\n", 100_000))
	answer, err := sendFile(ctx, node, node.Self().Address, "play.txt", file)
	fmt.Println(answer, err)

	_, err = node.OpenStream(ctx, node.Self().Address, "no such handler")
	fmt.Println(errors.Is(err, cluster.ErrUnknownType))
	if err := node.Leave(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// play.txt: 2100000 bytes <nil>
	// true
}
