// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unicode"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// refusalTimeout is how long a refusal is shown, even if the node sends other messages later.
const refusalTimeout = 10 * time.Second

// describeLast describes the last answer of a peer.
func (p *peer) describeLast(self member.Address, held member.State) string {
	c := p.claim
	fresh := p.refusal != message.ReasonNone && p.at.Sub(p.refusedAt) < refusalTimeout
	switch {
	case fresh && p.refused == message.KindVote:
		return "votes no: " + p.refusal.String()
	case fresh && p.refusal == message.ReasonClusterFull && !c.Chosen:
		// A provisional leader reserves a seat for each seed (protocol.md section 4).
		return "join refused: cluster full: the free seats are reserved for seeds"
	case fresh:
		text := "join refused: " + p.refusal.String()
		if more, ok := refusalTexts[p.refusal]; ok {
			text += ", " + more
		}
		return text
	case c.IsZero() && p.held.IsZero():
		return "knows no leader"
	case c.IsZero():
		return fmt.Sprintf("knows no leader, holds version %s", p.held)
	case c.Leader == self:
		return "follows this node"
	}
	who := "follows " + addressText(c.Leader) + ", which leads"
	if c.Leader == p.address {
		who = "leads"
	}
	switch {
	case !c.Chosen:
		return who + " provisionally"
	case c.Version < held.Version, c.Version == held.Version && c.Leader != held.Leader:
		// A node does not follow a leader whose version is below that of the node's state.
		return fmt.Sprintf("%s version %d, but this node holds version %s of %s: was its data "+
			"directory restored from a copy? Keep that of this node", who, c.Version, held.Number,
			addressText(held.Leader))
	default:
		return fmt.Sprintf("%s version %d", who, c.Version)
	}
}

// refusalTexts explains the reasons of refused joins.
var refusalTexts = map[message.Reason]string{
	message.ReasonNotLeader: "it does not lead",
	message.ReasonClusterFull: "all seats are taken, or kept for members that left (see the log " +
		"of the leader)",
	message.ReasonNotSettled: "another change of members is in progress",
	message.ReasonHoldsState: "this node holds the state of an earlier cluster, " +
		"but that leader has no state yet",
	message.ReasonNotMember:      "it leads an earlier cluster that this node does not belong to",
	message.ReasonOldIncarnation: "a later run of this address is known",
	message.ReasonQuorumAtStake: "this node lost its store, and its vote cannot be replaced " +
		"until more members are up",
	message.ReasonLeaderBound: "a later leader is being elected",
	message.ReasonAddressHeld: "another process with this address was heard a moment ago",
	message.ReasonRunJump:     "the clock of this node or of the leader is wrong by centuries",
	message.ReasonRestored: "the data directory of this node was restored from an earlier copy: " +
		"delete no other",
	message.ReasonLaterState: "this node holds a later state than that leader: the data directories " +
		"of a majority were restored from copies; keep that of this node",
	message.ReasonVersionJump: "this node takes part only above far higher tokens, as after athena " +
		"recover: stop all nodes, and run it on each with the same --tokens-above",
}

// maxMismatches bounds the number of differences of one node in a line.
const maxMismatches = 3

// faultText explains in a few words why there is no connection.
func faultText(err error) string {
	if differ := listMismatches(err); len(differ) > 0 {
		rest := ""
		if more := len(differ) - maxMismatches; more > 0 {
			differ, rest = differ[:maxMismatches], fmt.Sprintf(" and %d more", more)
		}
		return "differs in " + strings.Join(differ, ", ") + rest
	}
	switch {
	case errors.Is(err, transport.ErrNoAnswer):
		return errSilent.Error()
	case errors.Is(err, transport.ErrCertificate):
		if other, ok := errors.AsType[*mesh.IdentityError](err); ok {
			return "its certificate is for " + other.For()
		}
		if refused, ok := errors.AsType[*transport.CertificateError](err); ok {
			return safetext.OneLine("certificate refused: "+refused.Why, maxErrorBytes)
		}
		return "certificate refused"
	case errors.Is(err, transport.ErrNotNode):
		return "not an Athena node"
	case errors.Is(err, mesh.ErrSelf):
		return "this is the node itself, or another process that advertises its address"
	case errors.Is(err, fs.ErrPermission): // EPERM, from a filter of outgoing packets
		return "the firewall of this host lets no packets out to it"
	}
	closed, ok := errors.AsType[*transport.CloseError](err)
	switch {
	case ok && closed.Remote && closed.Code == transport.CodeRefused:
		return "refuses this node: " + safetext.QuotePeerText(closed.Reason)
	case ok && closed.Remote && closed.Code == transport.CodeEarlierRun:
		return "knows a later run of this store: two processes have copies of it"
	case ok && closed.Remote && closed.Code == transport.CodeAddressTaken:
		return "another process answers at the address that this node advertises"
	case ok && closed.Remote && closed.Code == transport.CodeUnproved:
		return "does not reach this node at the address that this node advertises: correct the " +
			"address, or the name in DNS, or open the port"
	case ok && closed.Remote && closed.Code == transport.CodeAddressHeld:
		return "knows another store at the address that this node advertises: it waits until that " +
			"one is silent and this node answers there"
	case ok && closed.Remote && closed.Code == transport.CodeClosed:
		return "is shutting down"
	}
	return strings.TrimPrefix(safetext.OneLine(err.Error(), maxErrorBytes), "transport: ")
}

// listMismatches describes each ConfigMismatchError in a tree of errors.
func listMismatches(err error) []string {
	var list []string
	for _, m := range findMismatches(err) {
		list = append(list, fmt.Sprintf("%s (%s here, %s there)", fieldInWords(m.Field),
			safetext.QuotePeerText(m.Ours), safetext.QuotePeerText(m.Theirs)))
	}
	return list
}

// findMismatches returns each ConfigMismatchError in a tree of errors.
func findMismatches(err error) (list []*transport.ConfigMismatchError) {
	//nolint:errorlint // it walks the tree of errors itself
	if m, ok := err.(*transport.ConfigMismatchError); ok {
		return append(list, m)
	}
	switch e := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			list = append(list, findMismatches(one)...)
		}
	case interface{ Unwrap() error }:
		list = findMismatches(e.Unwrap())
	}
	return list
}

// fieldInWords returns the name of a field in words: "heartbeat interval", "TTL timeout".
func fieldInWords(field string) string {
	if field == "Advertise" {
		return "advertised address"
	}
	var b strings.Builder
	runes := []rune(field)
	for i, r := range runes {
		begins := unicode.IsUpper(r) && i+1 < len(runes) && unicode.IsLower(runes[i+1])
		if begins && i > 0 {
			b.WriteByte(' ')
		}
		if begins {
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
