// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// reportLines maps each report of the transport to its log line. ReportFailed is missing because it
// stops the node, which then logs it.
var reportLines = map[mesh.ReportKind]line{
	mesh.ReportConnected:     {slog.LevelDebug, "connected"},
	mesh.ReportLost:          {slog.LevelDebug, "connection lost"},
	mesh.ReportRefused:       {slog.LevelWarn, "peer refused"},
	mesh.ReportRefusedByPeer: {slog.LevelWarn, "refused by peer"},
	mesh.ReportSeedsDiffer:   {slog.LevelWarn, "seeds differ"},
	mesh.ReportUnreachable:   {slog.LevelDebug, "cannot reach peer"},
	mesh.ReportHandshake:     {slog.LevelWarn, "handshake refused"},
	mesh.ReportSmallBuffers:  {slog.LevelInfo, "small buffers"},
	mesh.ReportStreamRefused: {slog.LevelWarn, "stream refused"},
	mesh.ReportClaimed:       {slog.LevelWarn, "address claimed"},
	mesh.ReportCopied:        {slog.LevelWarn, "earlier run refused"},
	mesh.ReportOneWay:        {slog.LevelWarn, "cannot dial a connected peer"},
}

// ObserveConnection handles a report of the transport.
func (o *Reporter) ObserveConnection(r mesh.Report) {
	if o.faults.noteReport(r) || r.Kind != mesh.ReportOneWay {
		o.logReport(r)
	}
	if r.Kind == mesh.ReportUnreachable {
		o.peers.noteFailedDial(r.Peer)
	}
	_, dialedThis := errors.AsType[mesh.DialerError](r.Err)
	switch {
	case r.Err == nil:
		o.peers.noteConnected(r.Peer)
	case r.Kind == mesh.ReportSeedsDiffer, r.Kind == mesh.ReportStreamRefused,
		r.Kind == mesh.ReportOneWay: // the peer is connected
	case r.Kind == mesh.ReportHandshake, r.Kind == mesh.ReportClaimed,
		r.Kind == mesh.ReportCopied, r.Peer.IsZero(), dialedThis:
		// Any dialer can claim to be a seed. Only what this node dials is evidence about one.
	case isPermanent(r.Err):
		o.peers.noteRefusal(r.Peer, r.Err)
	default:
		o.peers.noteFault(r.Peer, r.Err)
	}
}

// isPermanent reports whether a connection was refused because of the secret or the configuration.
// It returns false if a node is busy or two processes have one address.
func isPermanent(err error) bool {
	if errors.Is(err, transport.ErrCertificate) || errors.Is(err, mesh.ErrSelf) {
		return true
	}
	if closed, ok := errors.AsType[*transport.CloseError](err); ok {
		return closed.Code == transport.CodeRefused
	}
	_, mismatch := errors.AsType[*transport.ConfigMismatchError](err)
	return mismatch
}

// nameTimeout is how long a name must lead to another node before that counts as a refusal. DNS
// may return an address for a while after another node has taken it, as when pods are replaced.
const nameTimeout = 2 * time.Minute

// refusalWait returns how long a refusal must last before it counts as permanent.
func refusalWait(peer member.Address, err error) time.Duration {
	_, notAddress := netip.ParseAddr(peer.Host)
	if notAddress == nil || peer.Host == "localhost" || !isOtherNode(err) {
		return 0
	}
	return nameTimeout
}

// isOtherNode reports whether the only fault is that another node, or this one, answered the dial.
func isOtherNode(err error) bool {
	if _, other := errors.AsType[*mesh.IdentityError](err); other || errors.Is(err, mesh.ErrSelf) {
		return true
	}
	mismatches := findMismatches(err)
	for _, m := range mismatches {
		if m.Field != "Advertise" {
			return false
		}
	}
	return len(mismatches) > 0
}

func (o *Reporter) logReport(r mesh.Report) {
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
		r.Err = fmt.Errorf("differs in %s: configure the same on every node", strings.Join(differ, ", "))
	}
	o.log.LogAttrs(context.Background(), l.level, l.text, append(attrs, ErrAttr(r.Err))...)
}

// ObserveGreet handles the greeting of a peer. sameSeeds reports whether the peer has the same list
// of seeds as this node.
func (o *Reporter) ObserveGreet(peer member.Identity, sameSeeds bool) {
	o.peers.noteSeeds(peer.Address, sameSeeds)
	o.peers.noteConnected(peer.Address)
	o.faults.clearFault(peer.Address)
}

// ObserveMessage handles a message from another node before the machine handles it.
func (o *Reporter) ObserveMessage(m message.Message) { o.peers.noteMessage(m) }

// Hopeless returns a channel that is closed when every other seed has permanently refused this
// node.
func (o *Reporter) Hopeless() <-chan struct{} { return o.peers.hopeless }

// ListAnswers returns the last answer of each seed and member.
func (o *Reporter) ListAnswers() []Answer { return o.peers.listAnswers() }
