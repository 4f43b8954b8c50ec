// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

func TestRoundTrip(t *testing.T) {
	for name, set := range map[string][]message.Message{
		"typical": typical(), "zero": zero(), "largest": largest(),
	} {
		for _, want := range set {
			frame := encode(t, want)
			got, err := wire.Decode(frame)
			if err != nil {
				t.Errorf("%s %s: %v", name, want.Body.Kind(), err)
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", name, want.Body.Kind(), diff)
			}
		}
	}
}

// TestEncodingOnlyReads encodes each message in two goroutines at the same time, because messages
// share their rosters with views that others read. Only the race detector sees a write.
func TestEncodingOnlyReads(t *testing.T) {
	for _, m := range largest() {
		encoded := make(chan error)
		for range 2 {
			go func() {
				_, err := wire.Encode(m)
				encoded <- err
			}()
		}
		for range 2 {
			if err := <-encoded; err != nil {
				t.Errorf("%s: %v", m.Body.Kind(), err)
			}
		}
	}
}

func TestLargestMessageFitsIntoAFrame(t *testing.T) {
	for _, m := range largest() {
		if n := len(encode(t, m)); n > wire.MaxFrameBytes {
			t.Errorf("%s has %d bytes, the limit is %d", m.Body.Kind(), n, wire.MaxFrameBytes)
		}
	}
}

// TestRecordsTakeNoMoreThanTheirBytes checks Records.Bytes, which keeps a table within its
// limit.
func TestRecordsTakeNoMoreThanTheirBytes(t *testing.T) {
	none := len(encode(t, envelope(message.ClusterAlignment{})))
	check := func(t rapid.TB, name string, r member.Records) {
		frame, err := wire.Encode(envelope(message.ClusterAlignment{State: member.State{Records: r}}))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := len(frame) - none; got > r.Bytes() {
			t.Fatalf("%s: %d records take %d bytes, Bytes returns %d", name, r.Len(), got, r.Bytes())
		}
	}
	for name, r := range map[string]member.Records{"fewest": fewest(), "most": most()} {
		if r.Bytes() != member.MaxRecordsBytes {
			t.Errorf("%s: %d bytes are not full", name, r.Bytes())
		}
		check(t, name, r)
		for e := range r.All() {
			check(t, name, newTable(e))
		}
	}
	rapid.Check(t, func(t *rapid.T) { check(t, "drawn", drawRecords(t)) })
}

func TestKeepAlivesArePadded(t *testing.T) {
	hot := []message.Kind{
		message.KindLeaderKeepAlive, message.KindLeaderKeepAliveAck,
		message.KindSeedKeepAlive, message.KindSeedKeepAliveAck,
	}
	host := member.Address{Host: "a", Port: 1}
	for _, m := range zero() {
		// Try every length of padding, from zero to the maximum.
		for n := range 80 {
			m.To = host
			m.To.Host = string(bytes.Repeat([]byte("b"), n+1))
			frame := encode(t, m)
			if slices.Contains(hot, m.Body.Kind()) && len(frame) < wire.MinKeepAliveBytes {
				t.Errorf("%s to %s: %d bytes, want at least %d",
					m.Body.Kind(), m.To, len(frame), wire.MinKeepAliveBytes)
			}
			got, err := wire.Decode(frame)
			if err != nil || !cmp.Equal(m, got) {
				t.Errorf("%s to %s: got %+v, %v", m.Body.Kind(), m.To, got, err)
			}
		}
	}
}

func TestAppendKeepsWhatWasThere(t *testing.T) {
	before := []byte("before")
	got, err := wire.Append(before, keepAlive())
	if want := append(before, encode(t, keepAlive())...); err != nil || !bytes.Equal(got, want) {
		t.Errorf("Append(%q, m) = %x, %v, want %x", before, got, err, want)
	}
	bad := keepAlive()
	bad.From = member.Identity{}
	got, err = wire.Append(before, bad)
	if !errors.Is(err, wire.ErrMalformed) || string(got) != "before" {
		t.Errorf("Append of a bad message = %q, %v, want %q and ErrMalformed", got, err, before)
	}
}

func TestDecodeKeepsNothingOfTheFrame(t *testing.T) {
	for _, want := range typical() {
		frame := encode(t, want)
		got, err := wire.Decode(frame)
		if err != nil {
			t.Fatal(err)
		}
		clear(frame)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s after its frame was cleared (-want +got):\n%s", want.Body.Kind(), diff)
		}
	}
	frame := encodeEvent(t, events()[0])
	got, err := wire.DecodeEvent(frame, wire.DefaultEventBytes)
	if err != nil {
		t.Fatal(err)
	}
	got.Payload = bytes.Clone(got.Payload) // a slice of the frame, as DecodeEvent documents
	clear(frame)
	if diff := cmp.Diff(events()[0], got); diff != "" {
		t.Errorf("event after its frame was cleared (-want +got):\n%s", diff)
	}
}

func TestDrawnMessagesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := message.Message{
			From: drawIdentity(t), To: drawAddress(t, true), Claim: drawClaim(t), Body: drawBody(t),
		}
		frame, err := wire.Encode(want)
		if err != nil {
			t.Fatalf("Encode(%+v): %v", want, err)
		}
		got, err := wire.Decode(frame)
		if err != nil {
			t.Fatalf("Decode(Encode(%+v)): %v", want, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// TestAddressesAreThoseThatParse checks that an address can be encoded if and only if ParseAddress
// accepts it.
func TestAddressesAreThoseThatParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := member.Address{
			Host: rapid.StringOf(rapid.RuneFrom([]rune("a1.-:%é[]/ \t\r\n"))).Draw(t, "host"),
			Port: rapid.Uint16().Draw(t, "port"),
		}
		m := keepAlive()
		m.To = a
		_, err := wire.Encode(m)
		parsed, parseErr := member.ParseAddress(a.String())
		want := a.IsZero() || parseErr == nil && parsed == a
		if (err == nil) != want {
			t.Fatalf("address %+v: Encode returns %v, ParseAddress %v", a, err, parseErr)
		}
	})
}

func drawAddress(t *rapid.T, orZero bool) member.Address {
	if orZero && rapid.IntRange(0, 3).Draw(t, "zero") == 0 {
		return member.Address{}
	}
	host := rapid.OneOf(
		rapid.StringMatching(`[a-z0-9.:-]{1,20}`),
		rapid.StringMatching(`[a-zé]{1,127}`),
	).Draw(t, "host")
	return member.Address{Host: host, Port: rapid.Uint16Min(1).Draw(t, "port")}
}

func drawIdentity(t *rapid.T) member.Identity {
	id := member.Identity{Address: drawAddress(t, false), Incarnation: drawCount(t, "run")}
	copy(id.StoreID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "store"))
	return id
}

func drawClaim(t *rapid.T) member.Claim {
	return member.Claim{
		Chosen:  rapid.Bool().Draw(t, "chosen"),
		Version: drawCount(t, "version"),
		Leader:  drawAddress(t, true),
	}
}

func drawNumber(t *rapid.T) member.Number {
	return member.Number{
		Version: drawCount(t, "version"), Revision: drawCount(t, "revision"),
	}
}

func drawRuns(t *rapid.T) message.Runs {
	return message.Runs{Last: drawCount(t, "last run"), First: drawCount(t, "first run")}
}

func drawStamp(t *rapid.T) message.Stamp {
	return message.Stamp{
		Version:     drawCount(t, "version"),
		Incarnation: drawCount(t, "run"),
		Clock:       rapid.Int64().Draw(t, "clock"),
	}
}

func drawCount(t *rapid.T, what string) uint64 {
	return rapid.Uint64Range(0, member.MaxCount).Draw(t, what)
}

func drawID(t *rapid.T) paxos.ID {
	return paxos.ID{Version: drawCount(t, "version"), Ballot: paxos.Ballot{
		Round:       drawCount(t, "round"),
		Proposer:    drawAddress(t, true),
		Incarnation: drawCount(t, "run"),
	}}
}

func drawName(t *rapid.T, atLeast, maxBytes int) string {
	r := rapid.Rune().Filter(unicode.IsPrint)
	return rapid.StringOfN(r, atLeast, 30, maxBytes).Draw(t, "name")
}

func drawMember(t *rapid.T) member.Member {
	return member.Member{
		Identity: drawIdentity(t),
		Name:     drawName(t, 0, member.MaxNameBytes),
		Seed:     rapid.Bool().Draw(t, "seed"),
		Status:   member.Status(rapid.Uint8Range(1, 4).Draw(t, "status")),
		Gone:     rapid.Bool().Draw(t, "gone"),
		Resigned: rapid.Bool().Draw(t, "resigned"),
		Traits:   drawTraits(t),
	}
}

func drawTraits(t *rapid.T) member.Traits {
	values := map[string]string{}
	for range rapid.IntRange(0, 3).Draw(t, "labels") {
		values[strings.ReplaceAll(drawName(t, 1, 40), "=", "-")] = drawName(t, 0, 40)
	}
	l, err := member.NewLabels(values)
	if err != nil {
		t.Fatal(err)
	}
	n := rapid.Int8Range(int8(member.NeverLeads), int8(member.MaxPreference)).Draw(t, "preference")
	return member.Traits{Preference: member.Preference(n), Labels: l}
}

func drawState(t *rapid.T) member.State {
	s := member.State{Number: drawNumber(t), Leader: drawAddress(t, true)}
	copy(s.Cluster[:], rapid.SliceOfN(rapid.Byte(), len(s.Cluster), len(s.Cluster)).Draw(t, "cluster"))
	drawn := make(map[member.Address]member.Member)
	for range rapid.IntRange(0, 6).Draw(t, "members") {
		m := drawMember(t)
		drawn[m.Address] = m
	}
	for _, a := range slices.SortedFunc(maps.Keys(drawn), member.Address.Compare) {
		s.Roster = append(s.Roster, drawn[a])
	}
	s.Records = drawRecords(t)
	return s
}

// drawKeys draws ascending keys without duplicates.
func drawKeys(t *rapid.T) []string {
	drawn := make(map[string]bool)
	for range rapid.IntRange(0, 6).Draw(t, "keys") {
		drawn[drawName(t, 1, member.MaxKeyBytes)] = true
	}
	return slices.Sorted(maps.Keys(drawn))
}

// drawValue draws a value. An empty value is nil, because Decode returns nil for it.
func drawValue(t *rapid.T) []byte {
	b := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "value")
	if len(b) == 0 {
		return nil
	}
	return b
}

func drawRecords(t *rapid.T) member.Records {
	var r member.Records
	for _, key := range drawKeys(t) {
		e := member.Record{
			Key: key, Value: drawValue(t), Session: rapid.Uint64().Draw(t, "session"),
			Token: member.Token(drawNumber(t)), Revoked: rapid.Bool().Draw(t, "revoked"),
		}
		if rapid.Bool().Draw(t, "owned") {
			e.Owner = drawIdentity(t)
		}
		r = r.Put(e)
	}
	return r
}

func drawRequest(t *rapid.T) message.RecordRequest {
	r := message.RecordRequest{ID: drawCount(t, "id")}
	for range rapid.IntRange(0, 3).Draw(t, "conditions") {
		r.Conditions = append(r.Conditions, message.Condition{
			Key: drawName(t, 1, member.MaxKeyBytes), Token: member.Token(drawNumber(t)),
		})
	}
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		r.Changes = append(r.Changes, message.Change{
			Key: drawName(t, 1, member.MaxKeyBytes), Drop: rapid.Bool().Draw(t, "drop"),
			Value: drawValue(t), Owned: rapid.Bool().Draw(t, "owned"),
			Session: rapid.Uint64().Draw(t, "session"),
		})
	}
	return r
}

func drawBytes(t *rapid.T, n int) []byte {
	return rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "bytes")
}

func drawStatus(
	t *rapid.T, r message.LeaderStatusQueryResponse,
) message.LeaderStatusQueryResponse {
	r.Held, r.Save = drawNumber(t), drawSave(t)
	return r
}

func drawSave(t *rapid.T) time.Duration { return drawTimings(t).LeaseTimeout }

func drawTimings(t *rapid.T) message.Timings {
	d := func() time.Duration {
		return time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "timing"))
	}
	return message.Timings{
		HeartbeatInterval: d(), HeartbeatTimeout: d(), LeaderTimeout: d(),
		LeaseTimeout: d(), TTLTimeout: d(), RetryInterval: d(),
	}
}

func drawGreet(t *rapid.T, name string) message.Greet {
	return message.Greet{
		Active: rapid.Bool().Draw(t, "active"), Name: name, Cluster: name,
		Size: rapid.IntRange(0, 255).Draw(t, "size"), SeedDigest: drawCount(t, "digest"),
		Timings: drawTimings(t), OtherTimings: drawTimings(t),
		MinProtocol: rapid.Uint16().Draw(t, "min"), MaxProtocol: rapid.Uint16().Draw(t, "max"),
		StoreKey: [32]byte(drawBytes(t, 32)), Proof: [64]byte(drawBytes(t, 64)),
	}
}

func drawBody(t *rapid.T) message.Body {
	return drawBodyOf(t, message.Kind(rapid.Uint8Range(1, uint8(message.Kinds)-1).Draw(t, "kind")))
}

func drawBodyOf(t *rapid.T, kind message.Kind) message.Body {
	var (
		yes    = func() bool { return rapid.Bool().Draw(t, "bool") }
		n      = func() uint64 { return drawCount(t, "number") }
		name   = drawName(t, 0, member.MaxNameBytes)
		stage  = message.Stage(rapid.Uint8Range(1, 2).Draw(t, "stage"))
		reason = message.Reason(rapid.Uint8().Draw(t, "reason"))
	)
	switch kind {
	case message.KindGreet:
		return drawGreet(t, name)
	case message.KindLeaderQuery:
		return message.LeaderQuery{ID: n(), Held: drawState(t), Runs: drawRuns(t)}
	case message.KindLeaderResponse:
		return message.LeaderResponse{ID: n(), Held: drawNumber(t)}
	case message.KindJoinClusterRequest:
		return message.JoinClusterRequest{
			Name: name, Seed: yes(), Held: drawNumber(t), Bound: n(), Traits: drawTraits(t),
			Runs: drawRuns(t),
		}
	case message.KindJoinClusterResponse:
		return message.JoinClusterResponse{Accepted: yes(), Reason: reason, Known: n()}
	case message.KindMemberStatusUpdate:
		return message.MemberStatusUpdate{Number: drawNumber(t), Member: drawMember(t)}
	case message.KindClusterAlignment:
		return message.ClusterAlignment{State: drawState(t)}
	case message.KindLeaderKeepAlive:
		return message.LeaderKeepAlive{
			Number: drawNumber(t), Digest: n(), Bound: n(),
			Echo: drawStamp(t), Stamp: drawStamp(t), Drained: yes(), Save: drawSave(t),
			Reaches: rapid.IntRange(0, member.MaxMembers).Draw(t, "reaches"),
		}
	case message.KindLeaderKeepAliveAck:
		return message.LeaderKeepAliveAck{
			Echo: drawStamp(t), Stamp: drawStamp(t), Healthy: yes(), Quorate: yes(),
			Extends: yes(), Committed: drawNumber(t), Hold: drawTimings(t).LeaseTimeout, Offers: yes(),
		}
	case message.KindSeedKeepAlive:
		return message.SeedKeepAlive{}
	case message.KindSeedKeepAliveAck:
		return message.SeedKeepAliveAck{}
	case message.KindLeaderRelieve:
		return message.LeaderRelieve{Winner: drawClaim(t)}
	case message.KindReJoinCluster:
		return message.ReJoinCluster{GivenUp: drawClaim(t), Winner: drawClaim(t)}
	case message.KindLeaderStatusQuery:
		return message.LeaderStatusQuery{ID: n(), Version: n()}
	case message.KindLeaderStatusQueryResponse:
		return drawStatus(t, message.LeaderStatusQueryResponse{ID: n(), Healthy: yes()})
	case message.KindProposal:
		return message.Proposal{
			Stage: stage, ID: drawID(t), Founding: yes(), SeedDigest: n(),
			Held: drawNumber(t), Base: drawNumber(t), State: drawState(t),
			Successors: slices.Repeat([]member.Address{drawAddress(t, false)},
				rapid.IntRange(1, message.MaxSuccessors).Draw(t, "successors")),
		}
	case message.KindVote:
		return message.Vote{
			Stage: stage, ID: drawID(t), Granted: yes(), Reason: reason, Promised: drawID(t),
			Accepted: paxos.Accepted{ID: drawID(t), Base: drawNumber(t), State: drawState(t)},
			Held:     drawNumber(t), State: drawState(t), Unable: yes(),
		}
	case message.KindLeaderElected:
		return message.LeaderElected{ID: drawID(t), State: drawState(t)}
	case message.KindMemberLeave:
		return message.MemberLeave{GivenUp: drawClaim(t), Successor: drawAddress(t, true), Stays: yes()}
	default:
		return drawRecordBody(t, kind)
	}
}

func drawRunEnded(t *rapid.T) message.RunEnded {
	b := message.RunEnded{Run: drawIdentity(t)}
	copy(b.StoreKey[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key"))
	copy(b.Proof[:], rapid.SliceOfN(rapid.Byte(), 64, 64).Draw(t, "proof"))
	return b
}

func drawRecordBody(t *rapid.T, kind message.Kind) message.Body {
	switch kind {
	case message.KindRecordRequest:
		return drawRequest(t)
	case message.KindRecordResponse:
		return message.RecordResponse{
			ID: drawCount(t, "id"), Reason: message.Reason(rapid.Uint8().Draw(t, "reason")),
			Number: drawNumber(t),
		}
	case message.KindRecordUpdate:
		return message.RecordUpdate{
			Number: drawNumber(t), Set: slices.Collect(drawRecords(t).All()), Dropped: drawKeys(t),
		}
	case message.KindMemberTraits:
		return message.MemberTraits{Traits: drawTraits(t)}
	case message.KindRunEnded:
		return drawRunEnded(t)
	case message.KindRelayed:
		kind := rapid.SampledFrom([]message.Kind{
			message.KindLeaderKeepAlive, message.KindLeaderKeepAliveAck, message.KindRecordRequest,
			message.KindRecordResponse,
		}).Draw(t, "relayed")
		return message.Relayed{Message: message.Message{
			From: drawIdentity(t), To: drawAddress(t, true), Claim: drawClaim(t), Body: drawBodyOf(t, kind),
		}}
	default:
		t.Fatalf("no generator for %s", kind)
		return nil
	}
}
