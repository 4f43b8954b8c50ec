// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net"
	"sync"
	"sync/atomic"
)

// MaxConnections bounds the connections of a server. Each is an open file, and a node
// whose process has no more of them can save nothing, and ends.
const MaxConnections = 256

// limited is a listener that hangs up on who comes when MaxConnections are open. It
// does not let them wait: they would be open files all the same.
type limited struct {
	net.Listener
	open atomic.Int64
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= MaxConnections {
			return &counted{Conn: c, closed: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
		}
		l.open.Add(-1)
		c.Close()
	}
}

// counted is a connection that says once that it is closed.
type counted struct {
	net.Conn
	closed func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.closed()
	return c.Conn.Close()
}
