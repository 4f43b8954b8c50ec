// SPDX-License-Identifier: Apache-2.0

// Package grpc lets the connections of gRPC clients follow a leader: each call goes to the process
// that leads when the call begins.
//
//	leaders := node.Candidate(leader.Options{}) // or a job of package election
//	conn, err := rpc.NewClient("athena:///billing.internal", rpc.WithResolvers(
//		grpc.NewResolver(node, leaders, address)), credentials)
//
// The path of the target must be a name in the certificates of all servers.
//
// A client may reach a process that no longer leads. So the server must do its work in the term of
// its leadership (leader.Term.Do), and pass the token on to storage.
package grpc
