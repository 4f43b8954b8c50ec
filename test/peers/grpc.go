// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Messages are protobuf BytesValue. A unary one-way message is a call with an empty answer. With
// streams, each worker has its own stream; all share one connection.

const (
	sendMethod   = "/peers.Messages/Send"
	callMethod   = "/peers.Messages/Call"
	streamMethod = "/peers.Messages/Stream"
)

// serveGRPC starts a server.
func serveGRPC(encrypted bool) func(receiverSetup, *sink) (string, error) {
	return func(_ receiverSetup, s *sink) (string, error) {
		var options []grpc.ServerOption
		if encrypted {
			cfg, err := serverTLS()
			if err != nil {
				return "", err
			}
			cfg.NextProtos = nil // gRPC sets its own ALPN protocols
			options = append(options, grpc.Creds(credentials.NewTLS(cfg)))
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		server := grpc.NewServer(options...)
		server.RegisterService(describeService(s), nil)
		go func() { _ = server.Serve(l) }() // ends with the process
		return l.Addr().String(), nil
	}
}

// describeService returns the description that protoc would generate.
func describeService(s *sink) *grpc.ServiceDesc {
	count := func(*wrapperspb.BytesValue) any {
		s.count.Add(1)
		return new(emptypb.Empty)
	}
	echo := func(m *wrapperspb.BytesValue) any { return m }
	return &grpc.ServiceDesc{
		ServiceName: "peers.Messages",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "Send", Handler: unaryHandler(count)},
			{MethodName: "Call", Handler: unaryHandler(echo)},
		},
		Streams: []grpc.StreamDesc{{
			StreamName: "Stream", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error { return serveStream(stream, s) },
		}},
	}
}

func unaryHandler(reply func(*wrapperspb.BytesValue) any) grpc.MethodHandler {
	return func(
		_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor,
	) (any, error) {
		m := new(wrapperspb.BytesValue)
		if err := decode(m); err != nil {
			return nil, err
		}
		return reply(m), nil
	}
}

func serveStream(stream grpc.ServerStream, s *sink) error {
	for {
		m := new(wrapperspb.BytesValue)
		err := stream.RecvMsg(m)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.Value[0] == oneWay:
			s.count.Add(1)
		default:
			if err := stream.SendMsg(m); err != nil {
				return err
			}
		}
	}
}

// grpcClient sends on its streams, or by unary calls if it has none.
type grpcClient struct {
	conn    *grpc.ClientConn
	streams []grpc.ClientStream
}

func dialGRPC(encrypted, streaming bool) func(string, int) (client, error) {
	return func(address string, workers int) (client, error) {
		c := insecure.NewCredentials()
		if encrypted {
			cfg := clientTLS()
			cfg.NextProtos = nil // gRPC sets its own ALPN protocols
			c = credentials.NewTLS(cfg)
		}
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(c))
		if err != nil {
			return nil, err
		}
		g := &grpcClient{conn: conn}
		for range workers {
			if !streaming {
				break
			}
			stream, err := conn.NewStream(context.Background(),
				&grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, streamMethod)
			if err != nil {
				return nil, err
			}
			g.streams = append(g.streams, stream)
		}
		return g, nil
	}
}

func (g *grpcClient) send(worker int, p []byte) error {
	m := &wrapperspb.BytesValue{Value: p}
	if g.streams != nil {
		return g.streams[worker].SendMsg(m)
	}
	return g.conn.Invoke(context.Background(), sendMethod, m, new(emptypb.Empty))
}

func (g *grpcClient) call(worker int, p []byte) error {
	m, reply := &wrapperspb.BytesValue{Value: p}, new(wrapperspb.BytesValue)
	var err error
	if g.streams == nil {
		err = g.conn.Invoke(context.Background(), callMethod, m, reply)
	} else if err = g.streams[worker].SendMsg(m); err == nil {
		err = g.streams[worker].RecvMsg(reply)
	}
	return checkEcho(len(reply.Value), p, err)
}

func (*grpcClient) flush() error { return nil }

func (g *grpcClient) close() { _ = g.conn.Close() } // the measurement is over
