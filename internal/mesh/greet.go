// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
	"fmt"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/transport"
)

var (
	// ErrSelf means that a greeting claims the node's own address.
	ErrSelf = errors.New("transport: greeted from this node's own address: another process has " +
		"the same Advertise (--advertise), the name of another node leads to this host, or one address " +
		"is spelled in two ways, such as localhost and 127.0.0.1: correct that")
	// ErrSeedsDiffer is a warning: a peer with a different list of seeds is accepted, but
	// cannot found a cluster together with this node.
	ErrSeedsDiffer = errors.New("transport: the peer has a different list of seeds: " +
		"configure the same seeds on every node, without nodes of other clusters")
	// ErrNotGreet means that one side of a connection did not start with the greeting that the
	// protocol requires.
	ErrNotGreet = errors.New("transport: the first message on the connection is not a valid greet")
)

// CheckGreet compares the greetings of two nodes (protocol.md section 8). The field To of a
// greeting is the address under which the sender knows the other node. The error is ErrNotGreet,
// ErrSelf, or a joined error with a *ConfigMismatchError for each field that differs. Both ends of
// a connection get the same result.
func CheckGreet(ours, theirs message.Message) error {
	our, ok := ours.Body.(message.Greet)
	their, theirOK := theirs.Body.(message.Greet)
	if !ok || !theirOK || our.Active == their.Active {
		return ErrNotGreet
	}
	if theirs.From.Address == ours.From.Address {
		return ErrSelf
	}
	ourOne, theirOne := ours.From.Address.IsObserver(), theirs.From.Address.IsObserver()
	observed := ourOne || theirOne
	if ourOne && !our.Active || theirOne && !their.Active {
		return ErrNotGreet // only the dialer can be an observer
	}
	var faults []error
	differ := func(field string, differs bool, ours, theirs any) {
		if differs {
			faults = append(faults, &transport.ConfigMismatchError{
				Field: field, Ours: fmt.Sprint(ours), Theirs: fmt.Sprint(theirs),
			})
		}
	}
	differ("Advertise", theirs.From.Address != ours.To, ours.To, theirs.From.Address)
	differ("Advertise", ours.From.Address != theirs.To, ours.From.Address, theirs.To)
	differ("Cluster", our.Cluster != their.Cluster, our.Cluster, their.Cluster)
	known := !our.ClusterID.IsZero() && !their.ClusterID.IsZero()
	differ("ClusterID", known && our.ClusterID != their.ClusterID, our.ClusterID, their.ClusterID)
	if !observed { // an observer learns the rest from the member
		differ("Size", our.Size != their.Size, our.Size, their.Size)
		if !acceptsTimings(our, their) || !acceptsTimings(their, our) {
			timings := our.Timings.Fields()
			for i, their := range their.Timings.Fields() {
				differ(their.Name, timings[i].Value != their.Value, timings[i].Value, their.Value)
			}
		}
	}
	_, common := CommonProtocol(our, their)
	differ("Protocol", !common, formatProtocols(our), formatProtocols(their))
	return errors.Join(faults...)
}

// acceptsTimings reports whether a accepts the timings of b. (S) A node supports its leader, and
// keeps records, for the longest of the timings that it accepts. So each side must accept those by
// which the other one leads and trusts records (protocol.md section 8, two sets of timings).
func acceptsTimings(a, b message.Greet) bool {
	return b.Timings == a.Timings || b.Timings == a.OtherTimings
}

// GreetWarning returns ErrSeedsDiffer if the lists of seeds differ, which is no reason to
// refuse a peer. Otherwise it returns nil.
func GreetWarning(ours, theirs message.Greet) error {
	if ours.SeedDigest != theirs.SeedDigest {
		return ErrSeedsDiffer
	}
	return nil
}

// CommonProtocol returns the highest protocol version that both nodes support.
func CommonProtocol(a, b message.Greet) (version uint16, ok bool) {
	version = min(a.MaxProtocol, b.MaxProtocol)
	return version, version >= max(a.MinProtocol, b.MinProtocol)
}

func formatProtocols(g message.Greet) string {
	return fmt.Sprintf("%d to %d", g.MinProtocol, g.MaxProtocol)
}
