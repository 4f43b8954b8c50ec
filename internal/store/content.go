// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// Origin is the place that a store was made for: what a node promised counts
// for one cluster, of one Size, under one address.
type Origin struct {
	Cluster string // name of the cluster
	Size    int    // of the full cluster
	Address member.Address
}

// Content is all that a store keeps, saved and loaded as one: an origin
// without the promises, or promises without the origin, is never on disk.
type Content struct {
	Origin Origin
	// LeaseTimeout is that of the run that saved: for so long after its end the
	// node may still owe its support to a leader. In nanoseconds on disk.
	LeaseTimeout time.Duration
	// HoldTimeout is that of the run that saved: for so long after an ack of it an owner
	// may still trust its records.
	HoldTimeout time.Duration `json:",omitempty"`
	paxos.Durable
}

// IsUnused reports whether nothing was ever promised, voted for or held with
// the store, so that no promise is lost with it. A founding by others may have
// made it a voter all the same: at its own address it keeps its id.
func (c Content) IsUnused() bool {
	return c.Promised.IsZero() && c.Accepted.IsZero() && c.Held.Number.IsZero()
}

// checkOrigin returns every fault of an origin, each naming the field.
func (o Origin) checkOrigin() error {
	var faults []error
	if o.Cluster == "" || len(o.Cluster) > member.MaxClusterBytes || !member.IsPrintable(o.Cluster) {
		faults = append(faults, fmt.Errorf("Origin.Cluster: no name of a cluster: %.300q", o.Cluster))
	}
	if o.Size < 1 || o.Size > member.MaxMembers {
		faults = append(faults, fmt.Errorf("Origin.Size: %d is not within 1 to %d",
			o.Size, member.MaxMembers))
	}
	if !o.Address.IsValid() {
		faults = append(faults, fmt.Errorf("Origin.Address: %w: host %q, port %d",
			member.ErrAddress, o.Address.Host, o.Address.Port))
	}
	return errors.Join(faults...)
}
