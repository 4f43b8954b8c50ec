// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"math"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/member"
)

// There is one function for each event, in the order of package message. Each function lists the
// fields in their encoded order.

func (c *codec) greet(m *message.Greet) {
	c.bool(&m.Active)
	c.name(&m.Name, member.MaxNameBytes)
	c.name(&m.Cluster, member.MaxClusterBytes)
	within(c, &m.Size, 0, member.MaxMembers)
	c.uint64(&m.SeedDigest)
	c.timings(&m.Timings)
	within(c, &m.MinProtocol, 0, math.MaxUint16)
	within(c, &m.MaxProtocol, 0, math.MaxUint16)
	c.id("cluster id", (*[16]byte)(&m.ClusterID))
	if c.hasAddedField() {
		outer := c.enter()
		c.timings(&m.OtherTimings)
		c.leave(outer)
	}
	if c.hasAddedField() { // without one, the peer learns that its protocol version differs
		c.fixed("store key", m.StoreKey[:])
		c.fixed("proof", m.Proof[:])
	}
}

func (c *codec) timings(t *message.Timings) {
	c.duration(&t.HeartbeatInterval)
	c.duration(&t.HeartbeatTimeout)
	c.duration(&t.LeaderTimeout)
	c.duration(&t.LeaseTimeout)
	c.duration(&t.TTLTimeout)
	c.duration(&t.RetryInterval)
}

func (c *codec) leaderQuery(m *message.LeaderQuery) {
	c.uint64(&m.ID)
	c.state(&m.Held)
	c.storeRuns(&m.Runs)
}

func (c *codec) storeRuns(r *message.Runs) {
	if c.hasAddedField() {
		c.count(&r.Last)
		c.count(&r.First)
	}
}

func (c *codec) leaderResponse(m *message.LeaderResponse) {
	c.uint64(&m.ID)
	c.number(&m.Held)
}

func (c *codec) joinClusterRequest(m *message.JoinClusterRequest) {
	c.name(&m.Name, member.MaxNameBytes)
	c.bool(&m.Seed)
	c.number(&m.Held)
	c.count(&m.Bound)
	if c.hasAddedField() {
		c.traits(&m.Traits)
	}
	c.storeRuns(&m.Runs)
}

func (c *codec) joinClusterResponse(m *message.JoinClusterResponse) {
	c.bool(&m.Accepted)
	within(c, &m.Reason, 0, math.MaxUint8)
	c.count(&m.Known)
}

func (c *codec) leaderKeepAlive(m *message.LeaderKeepAlive) {
	c.number(&m.Number)
	c.uint64(&m.Digest)
	c.count(&m.Bound)
	c.stamp(&m.Echo)
	c.stamp(&m.Stamp)
	c.bool(&m.Drained)
	if c.hasAddedField() {
		within(c, &m.Reaches, 0, member.MaxMembers)
	}
	if c.hasAddedField() {
		c.duration(&m.Save)
	}
}

func (c *codec) leaderKeepAliveAck(m *message.LeaderKeepAliveAck) {
	c.stamp(&m.Echo)
	c.stamp(&m.Stamp)
	c.bool(&m.Healthy)
	c.bool(&m.Quorate)
	c.bool(&m.Extends)
	c.number(&m.Committed)
	if c.hasAddedField() {
		c.duration(&m.Hold)
	}
	if c.hasAddedField() {
		c.bool(&m.Offers)
	}
}

func (c *codec) memberStatusUpdate(m *message.MemberStatusUpdate) {
	c.number(&m.Number)
	c.entry(&m.Member)
}

func (c *codec) memberTraits(m *message.MemberTraits) { c.traits(&m.Traits) }

func (c *codec) runEnded(m *message.RunEnded) {
	c.identity(&m.Run)
	c.fixed("store key", m.StoreKey[:])
	c.fixed("proof", m.Proof[:])
}

func (c *codec) relayed(m *message.Relayed) {
	var kind message.Kind
	if c.writing && m.Message.Body != nil {
		kind = m.Message.Body.Kind()
	}
	c.header(&m.Message)
	within(c, &kind, 0, message.Kinds-1)
	if !kind.IsRelayed() {
		c.fail("a relayed %v", kind)
	}
	if c.err != nil {
		return
	}
	outer := c.enter()
	if c.writing {
		c.writeBody(m.Message.Body)
	} else {
		m.Message.Body = c.readBody(kind)
	}
	c.leave(outer)
}

func (c *codec) clusterAlignment(m *message.ClusterAlignment) { c.state(&m.State) }

func (c *codec) memberLeave(m *message.MemberLeave) {
	c.claim(&m.GivenUp)
	c.address(&m.Successor)
	c.bool(&m.Stays)
}

func (c *codec) recordRequest(m *message.RecordRequest) {
	c.count(&m.ID)
	list(c, "a list of conditions", &m.Conditions, message.MaxConditions, minConditionBytes,
		c.condition)
	list(c, "a list of changes", &m.Changes, message.MaxChanges, minChangeBytes, c.change)
	if c.hasAddedField() {
		c.stamp(&m.Seen)
	}
}

func (c *codec) condition(v *message.Condition) {
	outer := c.enter()
	c.key(&v.Key)
	c.token(&v.Token)
	c.leave(outer)
}

func (c *codec) change(v *message.Change) {
	outer := c.enter()
	c.key(&v.Key)
	c.bool(&v.Drop)
	c.blob(&v.Value, member.MaxValueBytes)
	c.bool(&v.Owned)
	c.uint64(&v.Session)
	c.leave(outer)
}

func (c *codec) recordResponse(m *message.RecordResponse) {
	c.count(&m.ID)
	within(c, &m.Reason, 0, math.MaxUint8)
	c.number(&m.Number)
}

func (c *codec) recordUpdate(m *message.RecordUpdate) {
	c.number(&m.Number)
	c.recordList(&m.Set)
	list(c, "a list of keys", &m.Dropped, member.MaxRecords, minDroppedBytes, c.dropped)
	if c.err == nil && !isSorted(m.Dropped) {
		c.fail("keys that are not sorted")
	}
}

func (c *codec) dropped(key *string) {
	outer := c.enter()
	c.key(key)
	c.leave(outer)
}

// isSorted reports whether keys are strictly ascending.
func isSorted(keys []string) bool {
	for i := 1; i < len(keys); i++ {
		if keys[i-1] >= keys[i] {
			return false
		}
	}
	return true
}

func (c *codec) leaderRelieve(m *message.LeaderRelieve) { c.claim(&m.Winner) }

func (c *codec) reJoinCluster(m *message.ReJoinCluster) {
	c.claim(&m.GivenUp)
	c.claim(&m.Winner)
}

func (c *codec) leaderStatusQuery(m *message.LeaderStatusQuery) {
	c.uint64(&m.ID)
	c.count(&m.Version)
}

func (c *codec) leaderStatusQueryResponse(m *message.LeaderStatusQueryResponse) {
	c.uint64(&m.ID)
	c.bool(&m.Healthy)
	c.number(&m.Held)
	if c.hasAddedField() {
		c.duration(&m.Save)
	}
}

func (c *codec) proposal(m *message.Proposal) {
	within(c, &m.Stage, message.Pre, message.Formal)
	c.proposalID(&m.ID)
	c.bool(&m.Founding)
	c.uint64(&m.SeedDigest)
	c.number(&m.Held)
	c.number(&m.Base)
	c.state(&m.State)
	if c.hasAddedField() {
		list(c, "a list of successors", &m.Successors, message.MaxSuccessors, minSuccessorBytes,
			c.successor)
	}
}

func (c *codec) successor(a *member.Address) {
	outer := c.enter()
	c.address(a)
	c.leave(outer)
}

func (c *codec) vote(m *message.Vote) {
	within(c, &m.Stage, message.Pre, message.Formal)
	c.proposalID(&m.ID)
	c.bool(&m.Granted)
	within(c, &m.Reason, 0, math.MaxUint8)
	c.proposalID(&m.Promised)
	c.accepted(&m.Accepted)
	c.number(&m.Held)
	c.state(&m.State)
	if c.hasAddedField() {
		c.bool(&m.Unable)
	}
}

func (c *codec) leaderElected(m *message.LeaderElected) {
	c.proposalID(&m.ID)
	c.state(&m.State)
}
