// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// reportLines has the line of each report of the transport, ReportFailed aside: it ends the
// node, which logs that.
var reportLines = map[mesh.ReportKind]line{
	mesh.ReportConnected:     {slog.LevelDebug, "connected"},
	mesh.ReportLost:          {slog.LevelDebug, "connection lost"},
	mesh.ReportRefused:       {slog.LevelWarn, "peer refused"},
	mesh.ReportRefusedByPeer: {slog.LevelWarn, "refused by peer"},
	mesh.ReportSeedsDiffer:   {slog.LevelWarn, "seeds differ"},
	mesh.ReportUnreachable:   {slog.LevelDebug, "peer not reached"},
	mesh.ReportCertificate:   {slog.LevelWarn, "handshake refused"},
	mesh.ReportSmallBuffers:  {slog.LevelInfo, "small buffers"},
	mesh.ReportStreamRefused: {slog.LevelWarn, "stream refused"},
}

// Report takes a report of the transport about a connection.
func (o *Observer) Report(r mesh.Report) {
	o.logReport(r)
	switch {
	case r.Err == nil || r.Kind == mesh.ReportSeedsDiffer ||
		r.Kind == mesh.ReportStreamRefused:
		// The peer is connected.
	case r.Kind == mesh.ReportCertificate || r.Peer.IsZero():
		// Anyone can dial this node and claim the address of a seed. Only the dials of
		// this node tell something about that seed.
	case isFinal(r.Err):
		o.peers.noteRefusal(r.Peer, r.Err)
	default:
		o.peers.noteFault(r.Peer, r.Err)
	}
}

// isFinal reports whether a connection was refused for good: because of the secret or the
// configuration, and not because a node was busy or runs twice.
func isFinal(err error) bool {
	if errors.Is(err, transport.ErrCertificate) || errors.Is(err, mesh.ErrSelf) {
		return true
	}
	if closed, ok := errors.AsType[*transport.CloseError](err); ok {
		return closed.Code == transport.CodeRefused
	}
	_, mismatch := errors.AsType[*transport.ConfigMismatchError](err)
	return mismatch
}

func (o *Observer) logReport(r mesh.Report) {
	l := reportLines[r.Kind]
	if !o.log.Enabled(context.Background(), l.level) {
		return
	}
	var attrs []slog.Attr
	if !r.Peer.IsZero() {
		attrs = append(attrs, slog.String("peer", addressText(r.Peer)))
	}
	if r.Kind == mesh.ReportSeedsDiffer {
		attrs = append(attrs,
			slog.String("seeds", safetext.OneLine(seedList(o.cfg.Seeds), maxErrorBytes)))
	}
	if differ := listMismatches(r.Err); len(differ) > 1 {
		// One piece of advice for all differences.
		r.Err = fmt.Errorf("differs in %s: configure the same on every node", strings.Join(differ, ", "))
	}
	o.log.LogAttrs(context.Background(), l.level, l.text, append(attrs, ErrAttr(r.Err))...)
}

// Admit takes a greet that was admitted; name is that of the member at the address, and
// sameSeeds reports whether the peer has the seeds of this node.
func (o *Observer) Admit(peer member.Identity, name string, sameSeeds bool) {
	o.peers.noteSeeds(peer.Address, sameSeeds)
	if o.peers.noteRun(peer) {
		o.warnAddressConflict(peer.Address, name, conflictAlive)
	}
	o.peers.noteConnected(peer.Address)
}

// Message takes a message of another node, before the machine does.
func (o *Observer) Message(m message.Message) { o.peers.noteMessage(m) }

// Hopeless is closed when every other seed has refused to be in one cluster with this node.
func (o *Observer) Hopeless() <-chan struct{} { return o.peers.hopeless }

// Answers lists what was last heard from each seed and member.
func (o *Observer) Answers() []Answer { return o.peers.listAnswers() }
