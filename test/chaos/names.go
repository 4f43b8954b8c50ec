// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// namesVariable is an environment variable of processes that resolve names: the socket of the
	// name server.
	namesVariable = "ATHENA_CHAOS_NAMES"
	// silentNames is a fault of the name server: it does not answer.
	silentNames = "silent names"
)

// nameServer answers questions for the names of hosts. It listens on a Unix socket, so that no
// fault of a link affects it.
type nameServer struct {
	net.Listener
	addresses map[string][4]byte // IPv4 addresses, by name
	silent    atomic.Bool
}

// nameOf returns the name and port of a node.
func nameOf(node int) string { return fmt.Sprintf("h%d.chaos:%d", node+1, port) }

// startNames replaces the addresses of the nodes by names.
func (w *world) startNames() (err error) {
	w.names = &nameServer{addresses: map[string][4]byte{}}
	if w.names.Listener, err = net.Listen("unix", w.namesSocket()); err != nil {
		return err
	}
	for i := range w.addresses {
		host, _, _ := strings.Cut(nameOf(i), ":")
		w.names.addresses[host+"."] = [4]byte{10, 77, 0, byte(i + 1)}
		w.addresses[i] = nameOf(i)
	}
	go w.names.serveQuestions()
	return nil
}

// namesSocket returns the path of the socket of the name server, or "" without one.
func (w *world) namesSocket() string {
	if w.names == nil {
		return ""
	}
	return filepath.Join(w.dir, "names")
}

func (s *nameServer) serveQuestions() {
	for {
		conn, err := s.Accept()
		if err != nil {
			return // closed
		}
		go func() {
			defer conn.Close()
			for s.answerNext(conn) == nil {
			}
		}()
	}
}

// answerNext reads one question and answers it, both with their length before them, as on TCP.
func (s *nameServer) answerNext(conn net.Conn) error {
	packet := make([]byte, 2)
	if _, err := io.ReadFull(conn, packet); err != nil {
		return err
	}
	packet = make([]byte, binary.BigEndian.Uint16(packet))
	if _, err := io.ReadFull(conn, packet); err != nil || s.silent.Load() {
		return err
	}
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil {
		return err
	}
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	for _, q := range m.Questions {
		ip, known := s.addresses[q.Name.String()]
		switch {
		case !known:
			m.RCode = dnsmessage.RCodeNameError
		case q.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 1},
				Body:   &dnsmessage.AResource{A: ip},
			})
		}
	}
	answer, err := m.AppendPack(make([]byte, 2))
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint16(answer, uint16(len(answer)-2))
	_, err = conn.Write(answer)
	return err
}

// useNames makes this process ask the name server of the run, if it has one.
func useNames() {
	socket := os.Getenv(namesVariable)
	if socket == "" {
		return
	}
	net.DefaultResolver = &net.Resolver{PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
			return struct{ net.Conn }{conn}, err // a PacketConn would get packets without lengths
		}}
}

// silenceNames makes the name server of the run silent, if it has one.
func (r *runner) silenceNames(f fault) []action {
	names := r.world.names
	if names == nil {
		return nil
	}
	return []action{
		{at: 0, do: func() error { names.silent.Store(true); return nil }},
		{at: f.For, do: func() error { names.silent.Store(false); return nil }},
	}
}
