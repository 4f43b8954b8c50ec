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
	// Addr is the host:port to listen on; without host, on all addresses, and
	// then Advertise is needed.
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
	// changes, also not at a restart: Size/2+1 of them must agree on anything.
	Size int
	// Seeds are the entry points, host:port each, the same list on every node,
	// at most Size. A node whose Advertise is among them is a seed. Default:
	// the node itself where Size is 1.
	Seeds []string
	// JoinOnly keeps a seed that lost its disk from founding a cluster anew.
	JoinOnly bool
	// TrustRefusal makes a killed leader's successor wait for no lease: as soon as
	// the host of the leader refuses its port, the process there is taken for
	// ended. Set it only where such a refusal (ICMP, port unreachable) comes from
	// the host itself: not through a proxy or a NAT, and where no firewall rejects
	// packets in a host's name. Where one does, two nodes may lead at once for up
	// to a LeaseTimeout; tokens still tell them apart. Without it a refusal only
	// makes the others ask each other sooner.
	TrustRefusal bool
	// DataDir is the directory of the durable store, made when missing; one
	// process a directory, and for its life one Cluster, Size and Advertise
	// (StoreMismatchError). Empty means a memory store: the node then forgets
	// its promises when it ends, and a cluster of which a majority of the
	// seeds restarted with memory stores may be founded again, with tokens
	// that start again at 1. Use a directory where tokens guard anything. A warning
	// is logged if it is empty and Memory is false.
	DataDir string
	// Memory confirms that the node runs without a DataDir, as in a test.
	Memory bool
	// Secret is shared by all nodes; who lacks it cannot connect. It is
	// MinSecretBytes or more random bytes, as they are or in base64, as NewSecret makes
	// it; passwords are refused. Without one, and without TLSCert, a node runs insecurely, and
	// only where Addr, Advertise and Seeds are all on loopback. All bytes count, also a line end:
	// read it from a file with ReadSecret, which takes line ends at the end away as
	// the daemon does, or two nodes with the same file refuse each other.
	Secret []byte
	// OtherSecret is accepted besides Secret, which signs: for a rotation, give
	// every node the new one here, then make it Secret everywhere, then drop
	// the old one.
	OtherSecret []byte
	// TLSCA, TLSCert and TLSKey are files in PEM, in the place of Secret: the
	// authorities that nodes of this cluster have certificates from, the certificate
	// of this node with the authorities between, and its private key, which nobody
	// else may read. The certificate is for both sides of a handshake, and names the
	// host of Advertise as a DNS name or IP address; or it has the URI
	// athena:///CLUSTER/HOST:PORT, and is good for this member of this cluster alone.
	// The files are read again when they change, at the next handshake, and no
	// connection ends; what is wrong with new ones is logged, and they are not used.
	TLSCA, TLSCert, TLSKey string
	// Insecure says on purpose that there is neither secret nor certificate: anybody
	// who reaches the port can join and read everything. Default: true where there is
	// neither and everything is on loopback; a warning is logged either way.
	Insecure bool
	// InsecureAnywhere allows that beyond loopback.
	InsecureAnywhere bool
	// Receiver has the handlers of this node, nil for none. It serves one node at a
	// time. Handlers may run before Start has returned the node; they have it from
	// FromContext. Events without a handler are dropped, with a warning.
	Receiver *receiver.Mux

	// The timings are 1 ms to 24 h each; DefaultConfig has the defaults, which are
	// for a local network. Nodes with others are refused (ConfigMismatchError).

	// HeartbeatInterval is the time between keep-alives, at most half of
	// HeartbeatTimeout. Default: 100 ms.
	HeartbeatInterval time.Duration
	// HeartbeatTimeout is the silence after which a member is unreachable, at most
	// LeaderTimeout. Default: 400 ms.
	HeartbeatTimeout time.Duration
	// LeaderTimeout is the silence after which a leader is taken for lost, at most
	// TTLTimeout. Default: 1 s.
	LeaderTimeout time.Duration
	// LeaseTimeout is how long an ack makes a follower support its leader: above 3.4
	// times HeartbeatInterval, at most LeaderTimeout. A shorter one replaces a dead
	// leader sooner, and needs clocks and answers that keep to it. Records of a silent
	// member end after LeaderTimeout + LeaseTimeout, so that they outlast the crash of a
	// leader. After a run with longer ones Start waits for the differences first. Default:
	// LeaderTimeout.
	LeaseTimeout time.Duration
	// TTLTimeout is the silence after which a member is removed from views.
	// Default: 10 s.
	TTLTimeout time.Duration
	// RetryInterval is the time between attempts to join. Default: 500 ms.
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

// LocalConfig has timings for nodes on one quiet machine: a fifth of DefaultConfig's.
// A process that gets no processor for 200 ms loses its leader.
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
