// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"strconv"
	"sync"
	"time"

	"github.com/athena-go/athena/internal/eventname"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

// Report is what observers follow. It leaves out what changes often, such as the revision.
type Report struct {
	ClusterID member.ClusterID
	Leader    member.Address // zero if no leader is known
	Authority bool           // the member knows that the leader has authority
	Version   uint64
	Members   member.Roster
}

const (
	// MaxObservers bounds the observers of a member.
	MaxObservers = 1024
	// RecordKey is the key of the metadata with the key of the record.
	RecordKey = "key"
	// WatchSeen is the key of the digest of the report that the observer has.
	WatchSeen = "seen"
	// WatchTimeout bounds how long a member waits for a change. An observer whose member has died
	// without closing its connection notices it after this time.
	WatchTimeout = 3 * time.Second
	// watchPace is the shortest time between two reports, and watchTick the longest delay of an answer
	// whose time is over.
	watchPace = 20 * time.Millisecond
	watchTick = 100 * time.Millisecond
	// observerBytes bounds the requests of all observers that are queued, handled or being answered.
	// Each counts with its payload and the limit of its answer, so at most 512 are in progress.
	observerBytes = 32 << 20
	requestBytes  = mesh.MaxObserverBytes
)

var (
	errObserverEvent = errors.New("cluster: an observer may only send requests")
	errNotJoined     = errors.New("cluster: this node has not joined the cluster")
)

// watches holds the requests of observers.
type watches struct {
	work sync.WaitGroup

	mu      sync.Mutex
	bytes   int // of requests
	pending map[member.Address]watch
	payload []byte
	digest  string // of payload; empty before the first watch
}

// watch is a request that is answered when the report differs from seen, or at a time.
type watch struct {
	id      uint64
	seen    string
	until   time.Time
	payload []byte // of the answer, once the watch is due
}

// takeObserved checks an event of an observer. It returns true if no handler needs to run.
func (m *Messenger) takeObserved(
	from member.Identity, e wire.Event, call *receiver.Call,
) (handled bool, err error) {
	w := &m.watches
	switch {
	case call == nil || !e.Call.Request:
		return true, errObserverEvent
	case (e.Name == eventname.Watch || e.Name == eventname.Record) && !m.hasJoined():
		// It would answer that there are no members and no records.
		m.sendAnswer(from.Address, answerTo(e.Call, false, errNotJoined), true)
		return true, nil
	case e.Name == eventname.Watch:
		m.startWatch(from.Address, watch{
			id: e.Call.ID, seen: e.Metadata[WatchSeen], until: time.Now().Add(WatchTimeout),
		})
		return true, nil
	case e.Name == eventname.Record:
		var payload []byte
		if r, ok := m.node.FindRecord(e.Metadata[RecordKey]); ok {
			payload, err = json.Marshal(r)
		}
		m.sendAnswer(from.Address, wire.Answer{ID: e.Call.ID, Payload: payload}, true)
		return true, err
	case !w.reserveBytes(len(e.Payload)):
		m.sendAnswer(from.Address, answerTo(e.Call, false, receiver.ErrBusy), false)
		return true, nil
	}
	answer := call.Answer
	size := len(e.Payload)
	call.Answer = func(value any, ran bool, err error) {
		defer w.releaseBytes(from, size)
		answer(value, ran, err)
	}
	return false, nil
}

func (m *Messenger) hasJoined() bool {
	report, _ := m.node.Follow()
	return !report.ClusterID.IsZero()
}

func (w *watches) reserveBytes(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes+n+requestBytes > observerBytes {
		return false
	}
	w.bytes += n + requestBytes
	return true
}

func (w *watches) releaseBytes(from member.Identity, n int) {
	if !from.Address.IsObserver() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes -= n + requestBytes
}

// endWatch ends the watch of an observer.
func (w *watches) endWatch(who member.Address) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, who)
}

// waitServed waits until no watch is served. None starts after m.streaming has ended.
func (w *watches) waitServed() {
	w.mu.Lock()
	w.mu.Unlock() //nolint:staticcheck // a concurrent startWatch has added its goroutine
	w.work.Wait()
}

// startWatch answers a watch immediately if there is something new, and otherwise keeps it. Each
// observer has one watch: a second one replaces the first.
func (m *Messenger) startWatch(from member.Address, of watch) {
	w := &m.watches
	w.mu.Lock()
	if m.streaming.Err() != nil { // an empty answer would make the observer ask again immediately
		w.mu.Unlock()
		m.sendAnswer(from, answerTo(wire.Call{ID: of.id}, false, ErrClosed), true)
		return
	}
	if w.pending == nil {
		w.pending = map[member.Address]watch{}
		report, changed := m.node.Follow()
		w.payload = encodeReport(report)
		w.digest = digestOf(w.payload)
		w.work.Go(func() { m.serveWatches(changed) })
	}
	payload, isNew := w.payload, w.digest != of.seen
	if !isNew {
		w.pending[from] = of
	}
	w.mu.Unlock()
	if isNew {
		m.sendAnswer(from, wire.Answer{ID: of.id, Payload: payload}, true)
	}
}

// serveWatches encodes the report once for all observers whenever it has changed, and answers their
// watches.
func (m *Messenger) serveWatches(changed <-chan struct{}) {
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-changed:
			select {
			case <-time.After(watchPace): // further changes may follow
			case <-m.streaming.Done():
				return
			}
			var report Report
			report, changed = m.node.Follow()
			m.watches.setReport(report)
		case <-m.streaming.Done():
			return
		}
		m.answerWatches()
	}
}

func (w *watches) setReport(r Report) {
	payload := encodeReport(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.payload, w.digest = payload, digestOf(payload)
}

// answerWatches answers the watches that are due. It does not wait for observers that do not read.
func (m *Messenger) answerWatches() {
	for to, of := range m.watches.takeDue(time.Now()) {
		a := wire.Answer{ID: of.id, Payload: of.payload}
		frame, err := wire.AppendAnswer(nil, a, MaxEventBytes)
		if err == nil && m.destinationOf(to).TrySend(transport.Answer, frame, mesh.SendMode{}) {
			continue
		}
		if err != nil || !m.watches.retryWatch(to, of) {
			_ = m.dropFrame(member.Identity{Address: to}, DropUnanswered, err)
		}
	}
}

// takeDue removes and returns the watches that are due. The payload is empty if the time is over
// and nothing has changed.
func (w *watches) takeDue(now time.Time) map[member.Address]watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	due := map[member.Address]watch{}
	for to, of := range w.pending {
		switch {
		case of.seen != w.digest:
			of.payload = w.payload
		case now.Before(of.until):
			continue
		}
		due[to] = of
		delete(w.pending, to)
	}
	return due
}

// retryWatch keeps a watch while other answers fill the room of its observer, which would otherwise
// leave this member. It returns false if the observer has another watch or has given up.
func (w *watches) retryWatch(to member.Address, of watch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, newer := w.pending[to]; newer || time.Now().After(of.until.Add(WatchTimeout)) {
		return false
	}
	of.payload = nil
	w.pending[to] = of
	return true
}

func encodeReport(r Report) []byte {
	payload, err := json.Marshal(r)
	if err != nil {
		panic(err) // a report has no value that JSON cannot encode
	}
	return payload
}

func digestOf(payload []byte) string {
	h := fnv.New64a()
	h.Write(payload)
	return strconv.FormatUint(h.Sum64(), 16)
}

// Watch asks a member for a report that differs from the last one, whose payload is seen. It
// returns no payload if nothing has changed for WatchTimeout.
func (m *Messenger) Watch(ctx context.Context, to member.Address, seen []byte) (
	r Report, payload []byte, err error,
) {
	payload, err = m.askMember(ctx, to, eventname.Watch, map[string]string{WatchSeen: digestOf(seen)})
	if err == nil && len(payload) > 0 {
		err = json.Unmarshal(payload, &r)
	}
	return r, payload, err
}

// ReadRecord asks a member for a record. It returns false if the record does not exist.
func (m *Messenger) ReadRecord(ctx context.Context, to member.Address, key string) (
	r member.Record, ok bool, err error,
) {
	payload, err := m.askMember(ctx, to, eventname.Record, map[string]string{RecordKey: key})
	if err != nil || len(payload) == 0 {
		return r, false, err
	}
	err = json.Unmarshal(payload, &r)
	return r, err == nil, err
}

// askMember sends a request that the Messenger of the member answers itself.
func (m *Messenger) askMember(
	ctx context.Context, to member.Address, name string, metadata map[string]string,
) ([]byte, error) {
	var answer receiver.Raw
	ask := receiver.Raw{Name: name, Payload: []byte{0xc0}} // nil in msgpack
	err := m.Request(ctx, to, ask, &answer, Options{Metadata: metadata})
	return answer.Payload, err
}
