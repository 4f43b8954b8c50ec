// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"maps"
	"strings"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
)

// memberFamilies tell of the other members. Their addresses are labels only while
// they are members: there are never more than the size of the cluster.
var memberFamilies = []family{
	{"athena_heartbeat_rtt_seconds",
		"Round trip to a member, smoothed, as its connection measures it.", gauge, []string{"peer"},
		func(l look, s *sink) {
			for _, p := range l.Peers {
				if _, ok := l.View.Members.Find(p.Address); ok && p.Connected {
					s.addValue(p.RTT.Seconds(), p.Address.String())
				}
			}
		}},
	{"athena_heartbeats_missed_total",
		"Late heartbeats: of the leader, or, on the leader, of a member.", counter, []string{"peer"},
		func(l look, s *sink) {
			for _, m := range l.View.Members {
				if m.Address != l.Self.Address {
					s.addCount(l.Counts.Missed[m.Address], m.Address.String())
				}
			}
		}},
	{"athena_member_transitions_total", "Changes of the status of a member that this node saw.",
		counter, []string{"from", "to"}, func(l look, s *sink) {
			for t, n := range l.Counts.Transitions {
				s.addCount(n, statusLabel(t.From), statusLabel(t.To))
			}
		}},
}

// statusLabel is a status in the words of the API; none is no member.
func statusLabel(s member.Status) string {
	if s == member.None {
		return "none"
	}
	return s.String()
}

// transportFamilies tell of connections and frames.
var transportFamilies = []family{
	{"athena_dropped_messages_total", "Messages that changed nothing, by reason.", counter,
		[]string{"reason"}, readDropped},
	{"athena_transport_bytes_total", "Bytes of frames, by direction and kind.", counter,
		[]string{"dir", "kind"}, func(l look, s *sink) {
			eachTraffic(l, func(t transport.Traffic, dir, kind string) { s.addCount(t.Bytes, dir, kind) })
		}},
	{"athena_transport_messages_total", "Frames, by direction and kind.", counter,
		[]string{"dir", "kind"}, func(l look, s *sink) {
			eachTraffic(l, func(t transport.Traffic, dir, kind string) { s.addCount(t.Messages, dir, kind) })
		}},
	{"athena_transport_handshakes_total", "Handshakes with other nodes, by how they ended.", counter,
		[]string{"result"}, func(l look, s *sink) {
			for r := range mesh.Results {
				s.addCount(l.Transport.Handshakes[r.String()], r.String())
			}
		}},
	{"athena_transport_duplicate_connections_total",
		"Connections that ended because another one of the same pair stays.", counter, nil,
		func(l look, s *sink) { s.addCount(l.Transport.Duplicates) }},
	{"athena_tls_cert_expiry_timestamp_seconds",
		"Until when others accept the certificate of this node: it, or an authority above it, ends. " +
			"Absent for one made of a secret, which renews itself.",
		gauge, nil, func(l look, s *sink) {
			if !l.CertificateExpires.IsZero() {
				s.addValue(float64(l.CertificateExpires.Unix()))
			}
		}},
}

// readDropped adds up what the protocol, the node and the transport dropped.
func readDropped(l look, s *sink) {
	counts := maps.Clone(l.Dropped)
	if counts == nil {
		counts = map[string]uint64{}
	}
	for d := range mesh.Drops {
		counts[d.String()] += l.Transport.Dropped[d.String()]
	}
	for reason, n := range counts {
		s.addCount(n, reason)
	}
}

// datagrams is the kind of what is sent with cluster.BestEffort.
const datagrams = "datagram"

func eachTraffic(l look, f func(t transport.Traffic, dir, kind string)) {
	for k := range transport.Kinds {
		f(l.Transport.Sent[k], "sent", k.String())
		f(l.Transport.Received[k], "received", k.String())
	}
	f(l.Transport.DatagramsSent, "sent", datagrams)
	f(l.Transport.DatagramsReceived, "received", datagrams)
}

// eventFamilies tell of the events of the application. Types are those that this
// program registered or sends: no peer can make a label up.
var eventFamilies = []family{
	{"athena_receiver_queue_depth", "Events that wait for a handler.", gauge, []string{"type"},
		func(l look, s *sink) {
			for _, r := range l.Receivers {
				if r.Event != "" && !r.Stream {
					s.addValue(float64(r.Queued), r.Event)
				}
			}
		}},
	{"athena_receiver_dropped_total",
		"Events that no handler took: dropped, rejected (queue full), malformed, or unhandled.",
		counter, []string{"type", "reason"}, func(l look, s *sink) {
			for _, r := range l.Receivers {
				if r.Event == "" {
					s.addCount(r.Dropped, "", "unhandled")
					continue
				}
				s.addCount(r.Dropped, typeLabel(r), "dropped")
				s.addCount(r.Rejected, typeLabel(r), "rejected")
				s.addCount(r.Malformed, typeLabel(r), "malformed")
			}
		}},
	{"athena_receiver_duration_seconds", "How long handlers had an event, of one event of 16.",
		buckets, []string{"type"}, func(l look, s *sink) {
			for _, r := range l.Receivers {
				if r.Event != "" && !r.Stream {
					s.addDurations(r.Took, r.Event)
				}
			}
		}},
	{"athena_requests_total", "Requests of this node, by type and how they ended.", counter,
		[]string{"type", "code"}, func(l look, s *sink) {
			for r, n := range l.Counts.Requests {
				s.addCount(n, strings.ToValidUTF8(r.Type, "?"), r.Code)
			}
		}},
	{"athena_watch_lagged_total", "How often a reader of events was too slow.", counter, nil,
		func(l look, s *sink) { s.addCount(l.Counts.Lagged) }},
}

// typeLabel tells the streams of a name from the events of a type of that name.
func typeLabel(r receiver.Stats) string {
	if r.Stream {
		return "stream:" + r.Event
	}
	return r.Event
}
