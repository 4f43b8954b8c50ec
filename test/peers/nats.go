// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// This is NATS without persistence. The receiver runs the server and subscribes within the process;
// the sender is a client over TCP. For a broadcast the sender runs the server instead.

const (
	sendSubject = "send"
	callSubject = "call"

	natsTimeout = 5 * time.Second
)

func startNATSServer(encrypted bool) (*server.Server, error) {
	o := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true}
	if encrypted {
		cfg, err := serverTLS()
		if err != nil {
			return nil, err
		}
		o.TLS, o.TLSConfig, o.TLSTimeout = true, cfg, natsTimeout.Seconds()
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(natsTimeout) {
		return nil, errors.New("the NATS server did not start")
	}
	return s, nil
}

// natsOptions returns the options of a client.
func natsOptions(encrypted bool) []nats.Option {
	if encrypted {
		return []nats.Option{nats.Secure(clientTLS())}
	}
	return nil
}

func serveNATS(encrypted bool) func(receiverSetup, *sink) (string, error) {
	return func(s receiverSetup, received *sink) (string, error) {
		address, options := s.Server, natsOptions(encrypted)
		if address == "" {
			local, err := startNATSServer(encrypted)
			if err != nil {
				return "", err
			}
			address, options = local.ClientURL(), append(options, nats.InProcessServer(local))
		}
		conn, err := nats.Connect(address, options...)
		if err != nil {
			return "", err
		}
		one, err := conn.Subscribe(sendSubject, func(*nats.Msg) { received.count.Add(1) })
		if err == nil {
			err = one.SetPendingLimits(-1, -1) // the default drops messages of a fast sender
		}
		if err == nil {
			_, err = conn.Subscribe(callSubject, func(m *nats.Msg) {
				_ = m.Respond(m.Data) // the sender reports a missing answer
			})
		}
		if err != nil {
			return "", err
		}
		return address, conn.Flush()
	}
}

type natsClient struct{ conn *nats.Conn }

func dialNATS(encrypted bool) func(string, int) (client, error) {
	return func(address string, _ int) (client, error) {
		conn, err := nats.Connect(address, natsOptions(encrypted)...)
		return &natsClient{conn}, err
	}
}

func (c *natsClient) send(_ int, p []byte) error { return c.conn.Publish(sendSubject, p) }

func (c *natsClient) call(_ int, p []byte) error {
	m, err := c.conn.Request(callSubject, p, natsTimeout)
	if err != nil {
		return err
	}
	return checkEcho(len(m.Data), p, nil)
}

func (c *natsClient) flush() error { return c.conn.Flush() }

func (c *natsClient) close() { c.conn.Close() }

// groupNATS broadcasts by one publication that all members receive.
func groupNATS(encrypted bool) func(messagePeer, int) (*group, error) {
	return func(p messagePeer, members int) (*group, error) {
		local, err := startNATSServer(encrypted)
		if err != nil {
			return nil, err
		}
		conn, err := nats.Connect(local.ClientURL(),
			append(natsOptions(encrypted), nats.InProcessServer(local))...)
		if err != nil {
			return nil, err
		}
		c := &natsClient{conn}
		g := &group{close: c.close, flush: c.flush}
		g.send = func(b []byte) error { return c.send(0, b) }
		err = g.startReceivers(receiverSetup{Peer: p.name, Server: local.ClientURL()}, members)
		if err != nil {
			g.stop()
			return nil, err
		}
		return g, nil
	}
}
