// SPDX-License-Identifier: Apache-2.0

//go:build unix

package swarm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// question is a request with a unique id.
type question struct {
	ID    int
	Slow  time.Duration // how long the handler takes
	Fails bool          // the handler fails
	Waits bool          // the handler waits until its context ends
	// Ignores makes the handler ignore its context.
	Ignores bool
	Answer  int // size of the answer
	Pad     []byte
}

// answer is the answer to a question.
type answer struct {
	ID, Node int
	Pad      []byte
}

// ask is what became of a question. world.mu guards it.
type ask struct {
	question
	from    int  // run that asked
	at      int  // run that was asked last
	ran     int  // handlers that were called
	running int  // handlers that have not returned
	refused bool // the caller got an error by which no handler runs
}

// newAsk returns a new question.
func (p *proc) newAsk(q question) *ask {
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastID++
	q.ID = w.lastID
	q.Pad = makePad(q.ID, len(q.Pad))
	a := &ask{question: q, from: p.run}
	w.asks[q.ID] = a
	return a
}

// onQuestion answers a question.
func (p *proc) onQuestion(
	ctx context.Context, from member.Member, q question,
) (answer, error) {
	p.handlers.addName("question")
	defer p.handlers.removeName("question")
	p.mu.Lock()
	a := p.asks[q.ID]
	if a == nil || !isPad(q.Pad, q.ID) {
		p.failLocked("corrupt", "question %d from %v is not what was sent", q.ID, from.Address)
		a = &ask{}
	}
	if a.at = p.run; !p.dead {
		a.ran++
	}
	if a.running++; a.ran > 1 || a.refused && !p.dead {
		p.failLocked("twice", "question %d: %d handlers ran; refused: %v", q.ID, a.ran, a.refused)
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		a.running--
	}()
	if q.Waits {
		<-ctx.Done()
		return answer{}, context.Cause(ctx)
	}
	if q.Ignores {
		sleepUntil(context.Background(), q.Slow)
	} else if sleepUntil(ctx, q.Slow); ctx.Err() != nil {
		return answer{}, context.Cause(ctx)
	}
	if q.Fails && q.ID%2 == 0 {
		panic(errDrawn)
	} else if q.Fails {
		return answer{}, errDrawn
	}
	return answer{q.ID, p.node, makePad(q.ID+1, q.Answer)}, nil
}

// runAsk sends questions to members and to the leader.
func runAsk(p *proc, r *rand.Rand, _ int) {
	var calls running // several at a time
	defer calls.work.Wait()
	for range 4 { // if the process is killed soon, their answers arrive at its next run
		q := question{Slow: drawTime(r, 0, 3*time.Second), Ignores: true}
		to := r.IntN(p.plan.Size)
		calls.startNamed("ask", func() { p.askNode(to, q, 4*time.Second, true) })
	}
	for !p.hasEnded() {
		q := question{Pad: make([]byte, r.IntN(100)), Answer: r.IntN(100), Fails: r.IntN(20) == 0}
		switch r.IntN(20) {
		case 0:
			q.Pad = make([]byte, r.IntN(p.plan.payloadSize(cluster.MaxEventBytes)))
		case 1:
			q.Answer = r.IntN(p.plan.payloadSize(cluster.MaxEventBytes + 1000))
		case 2, 3:
			q.Slow = drawTime(r, 0, 3*time.Second)
		case 4:
			q.Waits = true
		}
		to, limit := r.IntN(p.plan.Size+1), drawTime(r, 0, 3*time.Second)
		timeout := r.IntN(2) == 0
		if len(calls.listNames()) == 0 || r.IntN(3) > 0 {
			calls.startNamed("ask", func() { p.askNode(to, q, limit, timeout) })
		} else {
			p.askNode(to, q, limit, timeout)
		}
		p.takeRest(r, 100*time.Millisecond)
	}
}

// askNode sends a question to a node, or to the leader if there is no such node. After the limit it
// gives up, which the handler learns beforehand if timeout is set.
func (p *proc) askNode(to int, q question, limit time.Duration, timeout bool) error {
	a := p.newAsk(q)
	var got answer
	err := p.timeCall("Request", limit, func(ctx context.Context) (err error) {
		if !timeout {
			canceled, cancel := context.WithCancel(context.WithoutCancel(ctx))
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			ctx = canceled
		}
		if to == p.plan.Size {
			got, err = cluster.RequestLeader[answer](ctx, p.n, a.question)
		} else {
			got, err = cluster.Request[answer](ctx, p.n, p.Address(to), a.question)
		}
		return err
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	_, failed := errors.AsType[*cluster.HandlerError](err)
	switch {
	case p.dead:
	case err == nil && (got.ID != a.ID || to < p.plan.Size && got.Node != to ||
		len(got.Pad) != q.Answer || !isPad(got.Pad, a.ID+1)):
		p.failLocked("answer", "question %d of run %d to node %d: the answer is that of question %d "+
			"by node %d, with %d bytes instead of %d",
			a.ID, p.run, to, got.ID, got.Node, len(got.Pad), q.Answer)
	case (err == nil || failed || errors.Is(err, cluster.ErrBadAnswer)) && a.ran != 1,
		err == nil && (q.Fails || q.Waits):
		p.failLocked("answer", "question %d of run %d to node %d: got %v, but %d handlers ran",
			a.ID, p.run, to, err, a.ran)
	case !errors.Is(err, cluster.ErrUnknownOutcome) &&
		(notRun(err) || errors.Is(err, cluster.ErrClosed)):
		if a.refused = true; a.ran > 0 {
			p.failLocked("refused", "question %d of run %d to node %d was handled, but: %v",
				a.ID, p.run, to, err)
		}
	}
	return err
}

// onStream echoes a stream.
func (p *proc) onStream(_ context.Context, _ member.Member, s receiver.Stream) error {
	p.handlers.addName("stream")
	defer p.handlers.removeName("stream")
	buf := make([]byte, 8<<10)
	for {
		n, err := s.Read(buf)
		if bytes.IndexByte(buf[:n], streamFails) >= 0 {
			return errDrawn
		} else if bytes.IndexByte(buf[:n], streamPanics) >= 0 {
			panic(errDrawn)
		}
		if n > 0 {
			if _, err := s.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// The bytes of a stream count up to streamFails. The last one may make the handler fail.
const (
	streamFails  = 251
	streamPanics = 252
)

// makeStream returns the first bytes of a stream.
func makeStream(size int) []byte {
	counted := make([]byte, streamFails)
	for i := range counted {
		counted[i] = byte(i)
	}
	return bytes.Repeat(counted, size/streamFails+1)[:size]
}

// runStream opens streams.
func runStream(p *proc, r *rand.Rand, _ int) {
	for !p.hasEnded() {
		size := pickOne(r, r.IntN(100), r.IntN(20<<10), r.IntN(p.plan.payloadSize(300<<10)))
		last := pickOne[byte](r, 0, 0, 0, 0, streamFails, streamPanics)
		limit := drawTime(r, 0, 4*time.Second)
		_ = p.timeCall("OpenStream", limit, func(ctx context.Context) error {
			return p.echoStream(ctx, r.IntN(p.plan.Size), size, last)
		})
		p.takeRest(r, 200*time.Millisecond)
	}
}

// echoStream writes to a stream and reads it back. last is the last byte if it is not 0.
func (p *proc) echoStream(ctx context.Context, to, size int, last byte) error {
	s, err := p.n.OpenStream(ctx, p.Address(to), "echo")
	if err != nil {
		return err
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { s.Close() })()
	sent := makeStream(size)
	if size > 0 && last != 0 {
		sent[size-1] = last
	}
	var writes running
	defer writes.work.Wait()
	defer s.Close() // before the writer is awaited
	writes.startNamed("write", func() {
		if _, err := s.Write(sent); err == nil {
			_ = s.CloseWrite() // the reader gets the same error
		}
	})
	got, err := io.ReadAll(s)
	if !bytes.HasPrefix(sent, got) {
		p.failRun("stream", "run %d of node %d to node %d: the %d bytes received are not the first of "+
			"the %d bytes sent", p.run, p.node, to, len(got), size)
		return err
	}
	if err == nil && (len(got) != size || size > 0 && last != 0) {
		p.failRun("stream", "run %d of node %d to node %d: got %d of %d bytes without an error",
			p.run, p.node, to, len(got), size)
	}
	return err
}
