// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
	"sync"
	"testing"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// idleConn is a connection to which nothing is written.
type idleConn struct{ transport.Conn }

func (idleConn) Close(transport.Code, string) {}
func (idleConn) Heard() uint64                { return 0 }
func (idleConn) Stream(transport.Kind) transport.FrameStream {
	panic("a frame is written before the greet")
}

// losses is a handler that records the calls of Lost.
type losses struct {
	Handler
	mu   sync.Mutex
	lost []member.Identity
}

func (h *losses) StoreOf(member.Address) (none member.StoreID) { return none }

func (h *losses) Lost(who member.Identity) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = append(h.lost, who)
}

// TestConnectionThatEndsBeforeItStarts checks that Lost is called if a connection ends while this
// node writes its greeting. At that time, the connection already accepts frames.
func TestConnectionThatEndsBeforeItStarts(t *testing.T) {
	for _, mapped := range []bool{true, false} {
		h := &losses{}
		m, err := New(Config{
			Encode: func(message.Message) ([]byte, error) { return nil, nil },
			Decode: func([]byte) (message.Message, error) { return message.Message{}, nil },
			Key:    func(member.StoreID) storekey.Key { return storekey.Key{} },
			Size:   1,
		}, withoutNetwork)
		if err != nil {
			t.Fatal(err)
		}
		m.handler = h
		p := newPeer(m, member.Address{Host: "127.0.0.1", Port: 1})
		p.dialing = true // there is no network to dial on
		l := newLink(p, idleConn{}, Ends{})
		l.who = member.Identity{Address: p.addr, Incarnation: 7}
		want := 0
		if mapped {
			want = 1
			p.cur = l
			if err := p.send(t.Context(), &p.flows[transport.Custom], []byte("taken"), true); err != nil {
				t.Fatalf("Send: %v", err)
			}
			p.notify([]byte("heartbeat"))
		}
		l.end(transport.CodeClosed, "cannot write the greet", errors.New("broken"))
		if len(h.lost) != want || want > 0 && h.lost[0] != l.who {
			t.Errorf("mapped %t: lost %v, want %d", mapped, h.lost, want)
		}
	}
}
