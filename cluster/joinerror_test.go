// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

var errBoom = errors.New("boom")

func addresses(ports ...uint16) []member.Address {
	var list []member.Address
	for _, p := range ports {
		list = append(list, at(p, 0).Address)
	}
	return list
}

// TestJoinErrorListsAnswers checks that a JoinError lists the last answer of each other seed.
func TestJoinErrorListsAnswers(t *testing.T) {
	o := diagnosis.New(diagnosis.Config{
		Log: slog.New(slog.DiscardHandler), Self: addresses(1)[0], Seeds: addresses(1, 2, 3, 4),
	})
	o.ObserveGreet(at(2, 0).Identity, false)
	o.ObserveMessage(message.Message{From: at(2, 0).Identity, Claim: member.Claim{Chosen: true},
		Body: message.JoinClusterResponse{Reason: message.ReasonClusterFull}})
	report := func(port uint16, err error) {
		o.ObserveConnection(mesh.Report{
			Kind: mesh.ReportUnreachable, Peer: addresses(port)[0], Err: err,
		})
	}
	report(3, errBoom)
	report(9, errors.New("a stranger")) // not a seed
	err := error((&Node{reporter: o}).joinError(errHopeless))
	want := `cluster: could not join: every other seed refused the connection
	127.0.0.1:2: join refused: cluster full, ` +
		`all seats are taken, or kept for members that left (see the log of the leader); ` +
		`it has a different list of seeds
	127.0.0.1:3: boom
	127.0.0.1:4: no answer`
	if err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if !errors.Is(err, errBoom) || !errors.Is(err, errHopeless) {
		t.Error("errors.Is does not find cause and answers")
	}
}
