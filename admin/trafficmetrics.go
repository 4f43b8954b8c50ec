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

// memberFamilies are the metrics of other members. The label peer only names current members, so it
// has at most Size values.
var memberFamilies = []family{
	{"athena_heartbeat_rtt_seconds",
		"Smoothed round-trip time of the connection to a member.", gauge, []string{"peer"},
		func(l snapshot, s *sink) {
			for _, p := range l.Peers {
				if _, ok := l.View.Members.Find(p.Address); ok && p.Connected {
					s.addValue(p.RTT.Seconds(), p.Address.String())
				}
			}
		}},
	{"athena_heartbeats_missed_total",
		"Late heartbeats of the leader, or, on the leader, of a member.", counter, []string{"peer"},
		func(l snapshot, s *sink) {
			for _, m := range l.View.Members {
				if m.Address != l.Self.Address {
					s.addCount(l.Counts.Missed[m.Address], m.Address.String())
				}
			}
		}},
	{"athena_member_transitions_total", "Changes of the status of a member.",
		counter, []string{"from", "to"}, func(l snapshot, s *sink) {
			for t, n := range l.Counts.Transitions {
				s.addCount(n, statusLabel(t.From), statusLabel(t.To))
			}
		}},
}

// statusLabel returns the label of a status; "none" stands for no member.
func statusLabel(s member.Status) string {
	if s == member.None {
		return "none"
	}
	return s.String()
}

// transportFamilies are the metrics of connections and frames.
var transportFamilies = []family{
	{"athena_dropped_messages_total", "Messages that were dropped or ignored, by reason.", counter,
		[]string{"reason"}, readDropped},
	{"athena_transport_bytes_total", "Bytes of frames, by direction and kind.", counter,
		[]string{"dir", "kind"}, func(l snapshot, s *sink) {
			eachTraffic(l, func(t transport.Traffic, dir, kind string) { s.addCount(t.Bytes, dir, kind) })
		}},
	{"athena_transport_messages_total", "Frames, by direction and kind.", counter,
		[]string{"dir", "kind"}, func(l snapshot, s *sink) {
			eachTraffic(l, func(t transport.Traffic, dir, kind string) { s.addCount(t.Messages, dir, kind) })
		}},
	{"athena_transport_handshakes_total", "Handshakes with other nodes, by result.", counter,
		[]string{"result"}, func(l snapshot, s *sink) {
			for r := range mesh.Results {
				s.addCount(l.Transport.Handshakes[r.String()], r.String())
			}
		}},
	{"athena_observers", "Observers that are connected to this node.", gauge, nil,
		func(l snapshot, s *sink) { s.addCount(uint64(l.Transport.Observers)) }},
	{"athena_transport_duplicate_connections_total",
		"Connections closed because the two nodes had another one.", counter, nil,
		func(l snapshot, s *sink) { s.addCount(l.Transport.Duplicates) }},
	{"athena_tls_cert_expiry_timestamp_seconds",
		"Earliest expiry in the certificate chain of this node. Absent with a secret, whose " +
			"certificates renew themselves.",
		gauge, nil, func(l snapshot, s *sink) {
			if !l.CertificateExpires.IsZero() {
				s.addValue(float64(l.CertificateExpires.Unix()))
			}
		}},
}

// readDropped adds the drops of the protocol, the node and the transport.
func readDropped(l snapshot, s *sink) {
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

// datagrams is the label value for events sent with cluster.BestEffort.
const datagrams = "datagram"

func eachTraffic(l snapshot, f func(t transport.Traffic, dir, kind string)) {
	for k := range transport.Kinds {
		f(l.Transport.Sent[k], "sent", k.String())
		f(l.Transport.Received[k], "received", k.String())
	}
	f(l.Transport.DatagramsSent, "sent", datagrams)
	f(l.Transport.DatagramsReceived, "received", datagrams)
}

// eventFamilies are the metrics of application events. The values of the label type are limited to
// types that this program registers or sends, so that peers cannot add values.
var eventFamilies = []family{
	{"athena_receiver_queue_depth", "Events waiting for a handler.", gauge, []string{"type"},
		func(l snapshot, s *sink) {
			for _, r := range l.Receivers {
				if r.Event != "" && !r.Stream {
					s.addValue(float64(r.Queued), r.Event)
				}
			}
		}},
	{"athena_receiver_dropped_total",
		"Events that reached no handler, by reason: dropped, rejected (queue full), malformed or " +
			"unhandled.", counter, []string{"type", "reason"}, func(l snapshot, s *sink) {
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
	{"athena_receiver_duration_seconds", "Duration of handlers, sampled from one event in 16.",
		buckets, []string{"type"}, func(l snapshot, s *sink) {
			for _, r := range l.Receivers {
				if r.Event != "" && !r.Stream {
					s.addDurations(r.Took, r.Event)
				}
			}
		}},
	{"athena_receiver_running_seconds",
		"How long the longest running handler has run; 0 below 5 s.",
		gauge, []string{"type"}, func(l snapshot, s *sink) {
			for _, r := range l.Receivers {
				if r.Event != "" && !r.Stream {
					s.addValue(r.Slowest.Running.Seconds(), r.Event)
				}
			}
		}},
	{"athena_requests_total", "Requests of this node, by type and result.", counter,
		[]string{"type", "code"}, func(l snapshot, s *sink) {
			for r, n := range l.Counts.Requests {
				s.addCount(n, strings.ToValidUTF8(r.Type, "?"), r.Code)
			}
		}},
	{"athena_watch_lagged_total", "Number of times that a reader of events fell behind.", counter, nil,
		func(l snapshot, s *sink) { s.addCount(l.Counts.Lagged) }},
}

// typeLabel returns the label of an event type; types of streams get the prefix "stream:".
func typeLabel(r receiver.Stats) string {
	if r.Stream {
		return "stream:" + r.Event
	}
	return r.Event
}
