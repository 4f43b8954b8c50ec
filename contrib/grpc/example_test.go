// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/contrib/grpc"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
)

// connectToLeader returns a connection whose calls reach the leader of the cluster. Each node has
// the address of its gRPC server in the label "grpc" (cluster.Config.Labels).
func connectToLeader(node *cluster.Node, tls credentials.TransportCredentials) (
	*rpc.ClientConn, error,
) {
	address := func(m member.Member) string {
		a, _ := m.Labels.Get("grpc")
		return a
	}
	leaders := node.Candidate(leader.Options{}) // or a job of package election
	return rpc.NewClient("athena:///billing.internal", rpc.WithTransportCredentials(tls),
		rpc.WithResolvers(grpc.NewResolver(node, leaders, address)))
}

// README.md shows it.
var _ = connectToLeader
