// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
)

// Origin is the cluster, size and address for which a store was created. The content is valid only
// for one cluster, of one size, and under one address. An unused store with a Floor may have only a
// cluster: athena recover creates it in a lost directory.
type Origin struct {
	Cluster string // name of the cluster
	Size    int    // size of the full cluster
	Address member.Address
}

// Content is everything that a store keeps. It is saved and loaded as a whole, so that the
// disk never contains the origin without the promises, or the promises without the origin.
type Content struct {
	Origin Origin
	// LeaseTimeout is the timeout of the run that saved the content. After that run has ended, the
	// node may still have to support a leader for this long. On disk it is in nanoseconds.
	LeaseTimeout time.Duration
	// HoldTimeout is the hold timeout of the run that saved the content. The owner of a record may
	// rely on an acknowledgement of this node for this long.
	HoldTimeout time.Duration `json:",omitempty"`
	// Key is the private key of the store, whose id is the hash of the public key. It is a part of the
	// content, so that a crash cannot separate the two.
	Key storekey.Key
	paxos.Durable
}

// IsUnused reports whether the store never promised, voted or held anything. The loss of such a
// store does no harm. But another node may have founded the cluster with this node as a voter, so a
// node whose address is unchanged keeps its store id.
func (c Content) IsUnused() bool {
	return c.Promised.IsZero() && c.Accepted.IsZero() && c.Held.Number.IsZero()
}

// HighestToken returns the highest token that a leader may have, as far as the store shows. A
// version that was promised or accepted may have been elected without this node.
func (c Content) HighestToken() uint64 {
	return max(c.Held.Version, c.Promised.Version, c.Accepted.ID.Version, c.Floor)
}

// checkKey returns an error if the store id is not that of the key.
func (c Content) checkKey() error {
	if c.Key.StoreID() != c.StoreID {
		return errors.New("StoreID: is not the id of the key")
	}
	return nil
}

// checkOrigin returns every fault of the origin, each naming its field.
func (c Content) checkOrigin() error {
	var faults []error
	o := c.Origin
	noNode := c.IsUnused() && c.Floor > 0 && o.Address.IsZero()
	if o.Cluster == "" || len(o.Cluster) > member.MaxClusterBytes || !member.IsPrintable(o.Cluster) {
		faults = append(faults, fmt.Errorf("Origin.Cluster: invalid cluster name %.300q", o.Cluster))
	}
	if o.Size < 0 || o.Size == 0 && !noNode || o.Size > member.MaxMembers {
		faults = append(faults, fmt.Errorf("Origin.Size: %d: want 1 to %d",
			o.Size, member.MaxMembers))
	}
	if !noNode && !o.Address.IsValid() {
		faults = append(faults, fmt.Errorf("Origin.Address: %w: host %q, port %d",
			member.ErrAddress, o.Address.Host, o.Address.Port))
	}
	return errors.Join(faults...)
}
