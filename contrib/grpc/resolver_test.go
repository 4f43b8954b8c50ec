// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	health_pb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/contrib/grpc"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// A world is a cluster with a gRPC server for each node. The server of node i provides the service
// "i".
type world struct {
	*athenatest.Cluster
	listeners []*bufconn.Listener
}

func (w *world) main(ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option) error {
	service := health.NewServer()
	service.SetServingStatus(fmt.Sprint(i), health_pb.HealthCheckResponse_SERVING)
	s := rpc.NewServer()
	health_pb.RegisterHealthServer(s, service)
	w.listeners[i] = bufconn.Listen(1 << 16)
	go s.Serve(w.listeners[i])
	defer s.Stop()
	cfg.Labels = map[string]string{"grpc": nameOf(i)}
	node, err := cluster.Start(ctx, cfg, opts...)
	if err != nil {
		return err
	}
	defer node.Leave(context.WithoutCancel(ctx))
	<-ctx.Done()
	return nil
}

// nameOf returns the address of the server of node i.
func nameOf(i int) string { return fmt.Sprint("server-", i) }

// dial returns a client that runs on node i and calls the leader.
func (w *world) dial(t *testing.T, i int) health_pb.HealthClient {
	t.Helper()
	node := w.Node(i)
	r := grpc.NewResolver(node, node.Candidate(leader.Options{}), func(m member.Member) string {
		address, _ := m.Labels.Get("grpc")
		return address
	})
	conn, err := rpc.NewClient("athena:///test", rpc.WithResolvers(r),
		rpc.WithTransportCredentials(insecure.NewCredentials()),
		rpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			for i := range w.Size() {
				if address == nameOf(i) {
					return w.listeners[i].DialContext(ctx)
				}
			}
			return nil, fmt.Errorf("no server at %s", address)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return health_pb.NewHealthClient(conn)
}

// answers reports which server answers the client.
func (w *world) answers(t *testing.T, c health_pb.HealthClient, o ...rpc.CallOption) (node int) {
	t.Helper()
	for i := range w.Size() {
		_, err := c.Check(t.Context(), &health_pb.HealthCheckRequest{Service: fmt.Sprint(i)}, o...)
		switch status.Code(err) {
		case codes.OK:
			return i
		case codes.NotFound:
		default:
			t.Fatalf("Check: %v", err)
		}
	}
	t.Fatal("no server answers")
	return -1
}

// TestFollowsTheLeader kills one leader and cuts off the next.
func TestFollowsTheLeader(t *testing.T) {
	w := &world{listeners: make([]*bufconn.Listener, 3)}
	athenatest.Run(t, athenatest.Options{Main: w.main}, func(t *testing.T, c *athenatest.Cluster) {
		w.Cluster = c
		var clients []health_pb.HealthClient
		for i := range c.Size() {
			clients = append(clients, w.dial(t, i))
		}
		first := c.Leader()
		for i, client := range clients {
			if got := w.answers(t, client); got != first {
				t.Errorf("node %d answers the client of node %d, want %d", got, i, first)
			}
		}
		c.Crash(first)
		c.Advance(time.Millisecond) // a call that is in flight fails
		other := (first + 1) % 3
		began := time.Now()
		got := w.answers(t, clients[other], rpc.WaitForReady(true))
		if next := c.Leader(); got != next {
			t.Errorf("node %d answers, want the next leader %d", got, next)
		}
		t.Logf("the next leader answers %v after the kill", time.Since(began))
		c.Restart(first)
		c.WaitSettled()

		second := c.Leader()
		c.Partition([]int{second})
		c.NextLeader(second)
		_, err := clients[second].Check(t.Context(), &health_pb.HealthCheckRequest{})
		if !strings.Contains(fmt.Sprint(err), leader.ErrNoLeader.Error()) {
			t.Errorf("Check in the minority: got %v, want ErrNoLeader", err)
		}
		for _, i := range c.Running() {
			if i == second || i == first {
				continue // the client of the first node ended when the node ended
			}
			if got := w.answers(t, clients[i], rpc.WaitForReady(true)); got != c.Leader() {
				t.Errorf("node %d answers, want leader %d", got, c.Leader())
			}
		}
		c.Heal()
		c.WaitSettled()
		if got := w.answers(t, clients[second]); got != c.Leader() {
			t.Errorf("node %d answers after the partition, want %d", got, c.Leader())
		}
		// The node of this client was closed.
		_, err = clients[first].Check(t.Context(), &health_pb.HealthCheckRequest{})
		if !strings.Contains(fmt.Sprint(err), leader.ErrClosed.Error()) {
			t.Errorf("Check by a closed node: got %v, want ErrClosed", err)
		}
	})
}

// TestAddressChanges changes the address of the leader's gRPC server, but not the leader.
func TestAddressChanges(t *testing.T) {
	w := &world{listeners: make([]*bufconn.Listener, 3)}
	athenatest.Run(t, athenatest.Options{Main: w.main}, func(t *testing.T, c *athenatest.Cluster) {
		w.Cluster = c
		leading := c.Leader()
		client := w.dial(t, leading)
		if got := w.answers(t, client); got != leading {
			t.Errorf("node %d answers, want %d", got, leading)
		}
		if err := c.Node(leading).SetLabels(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		c.Advance(2 * time.Second)
		_, err := client.Check(t.Context(), &health_pb.HealthCheckRequest{})
		if !strings.Contains(fmt.Sprint(err), "is unknown") {
			t.Errorf("Check without an address: got %v", err)
		}
		other := (leading + 1) % 3 // the server that the leader uses from now on
		labels := map[string]string{"grpc": nameOf(other)}
		if err := c.Node(leading).SetLabels(t.Context(), labels); err != nil {
			t.Fatal(err)
		}
		if got := w.answers(t, client, rpc.WaitForReady(true)); got != other {
			t.Errorf("server %d answers, want %d", got, other)
		}
	})
}
