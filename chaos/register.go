// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"sync"
	"time"
)

// Verdicts of the register.
const (
	accepted     = "accepted"
	refusedLower = "lower"  // the token is below one that was seen
	refusedOther = "shared" // another writer has used the token
)

// registerTimeout bounds one write.
const registerTimeout = time.Second

// registerTask is what the register needs to know.
type registerTask struct {
	Book   string // path of its evidence
	Socket string
}

// register is what a program protects with fencing tokens: it takes a write
// only from the holder of the highest token.
type register struct {
	book *book

	mu    sync.Mutex
	token uint64
	from  string
	run   int64
}

// registerMain serves writes until standard input ends. Its socket is a path:
// the network namespaces do not hide it, and no cut reaches it.
func registerMain(task string) error {
	var t registerTask
	if err := json.Unmarshal([]byte(task), &t); err != nil {
		return err
	}
	b, err := openBook(t.Book, "register", 0)
	if err != nil {
		return err
	}
	l, err := net.Listen("unix", t.Socket)
	if err != nil {
		return err
	}
	if _, err := os.Stdout.WriteString("ready\n"); err != nil {
		return err
	}
	r := &register{book: b}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(c)
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
	}
	return nil
}

func (r *register) serve(c net.Conn) {
	defer c.Close()
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for {
		var w evidence
		if in.Decode(&w) != nil || out.Encode(r.decide(w)) != nil {
			return
		}
	}
}

// decide accepts or refuses a write, and writes that down before anybody knows.
func (r *register) decide(w evidence) evidence {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Verdict = judge(r.token, r.from, r.run, w)
	if w.Verdict == accepted {
		r.token, r.from, r.run = w.Token, w.From, w.FromRun
	}
	r.book.put(w)
	return w
}

// judge compares a write with the highest token and its writer.
func judge(token uint64, from string, run int64, w evidence) string {
	switch {
	case w.Token < token:
		return refusedLower
	case w.Token == token && (w.From != from || w.FromRun != run):
		return refusedOther
	default:
		return accepted
	}
}

// registerClient writes over one connection, which it makes when needed.
type registerClient struct {
	conn net.Conn
	in   *json.Decoder
}

// write gives up after registerTimeout: the register writes down what it took.
func (c *registerClient) write(socket string, w evidence) {
	if c.conn == nil {
		conn, err := net.DialTimeout("unix", socket, registerTimeout)
		if err != nil {
			return
		}
		c.conn, c.in = conn, json.NewDecoder(conn)
	}
	err := c.conn.SetDeadline(time.Now().Add(registerTimeout))
	if err == nil {
		err = json.NewEncoder(c.conn).Encode(w)
	}
	if err == nil {
		err = c.in.Decode(&w)
	}
	if err != nil {
		c.close()
	}
}

func (c *registerClient) close() {
	if c.conn != nil {
		_ = c.conn.Close() // every write was answered or given up
		c.conn = nil
	}
}
