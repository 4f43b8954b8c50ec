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

// The decisions of the register.
const (
	accepted     = "accepted"
	refusedLower = "lower"  // a higher token has been used
	refusedOther = "shared" // another writer uses the token
	refusedLate  = "late"   // a later write of this writer was accepted
)

// registerTimeout bounds one write.
const registerTimeout = time.Second

// registerTask is the task of the register.
type registerTask struct {
	Evidence string // path of its evidence
	Socket   string
}

// register is a resource protected by fencing tokens: it accepts writes only from the holder of
// the highest token.
type register struct {
	evidence *evidenceFile

	mu    sync.Mutex
	state registerState
}

// registerState is the state of a register.
type registerState struct {
	top  evidence         // the newest accepted write
	last map[owner]uint64 // Seq of the newest accepted write, by writer
}

// registerMain serves writes until standard input ends. Its socket is a path in the file system,
// which all network namespaces share and no network fault affects.
func registerMain(task string) error {
	var t registerTask
	if err := json.Unmarshal([]byte(task), &t); err != nil {
		return err
	}
	b, err := openEvidence(t.Evidence, evidence{Node: "register"})
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
	r := &register{evidence: b}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.serveConn(c)
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
	}
	return nil
}

func (r *register) serveConn(c net.Conn) {
	defer c.Close()
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for {
		var w evidence
		if in.Decode(&w) != nil || out.Encode(r.decideWrite(w)) != nil {
			return
		}
	}
}

// decideWrite accepts or refuses a write. It records the decision before it returns it.
func (r *register) decideWrite(w evidence) evidence {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Verdict = r.state.judgeWrite(w)
	if w.Verdict == accepted {
		r.state.acceptWrite(w)
	}
	r.evidence.appendLine(w)
	return w
}

// judgeWrite compares a write with the highest token and its writer. A write may be late because
// its writer has abandoned it and used another connection.
func (l *registerState) judgeWrite(w evidence) string {
	switch {
	case w.Token < l.top.Token:
		return refusedLower
	case w.Token == l.top.Token && writerOf(w) != writerOf(l.top):
		return refusedOther
	case w.Seq <= l.last[writerOf(w)]:
		return refusedLate
	default:
		return accepted
	}
}

func (l *registerState) acceptWrite(w evidence) {
	if l.last == nil {
		l.last = map[owner]uint64{}
	}
	l.top, l.last[writerOf(w)] = w, w.Seq
}

// writerOf returns the writer of a write.
func writerOf(w evidence) owner { return owner{w.From, w.FromRun} }

// registerClient writes over one connection, which it dials when needed.
type registerClient struct {
	conn net.Conn
	in   *json.Decoder
}

// sendWrite sends a write to the register. It gives up after registerTimeout, since the register
// records what it accepted.
func (c *registerClient) sendWrite(socket string, w evidence) {
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
		_ = c.conn.Close() // every write was answered or abandoned
		c.conn = nil
	}
}
