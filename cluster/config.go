// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// Config is the part of a node's configuration that fits in a file. Zero fields stand for their
// defaults, which WithDefaults fills in. Cluster, Size, Seeds and the timings must be the same on
// every node.
type Config struct {
	// Addr is the host:port to listen on. Without a host the node listens on all addresses,
	// and Advertise is required.
	Addr string
	// Advertise is the host:port by which other members reach this node. It identifies the
	// node. Default: Addr.
	Advertise string
	// Name is for display only and need not be unique. Default: Advertise.
	Name string
	// Cluster is the name of the cluster. A node refuses nodes of other clusters. Default:
	// DefaultCluster.
	Cluster string
	// Size is the number of members of the full cluster, 1 to 255. Every decision takes Size/2+1
	// members, so Size changes only while all nodes are stopped, in their stores (athena resize).
	Size int
	// Seeds are the host:port addresses through which nodes join: the same list on every node,
	// at most Size entries. A node whose Advertise is listed is a seed.
	//
	// The first start of a cluster needs a majority of the seeds, len(Seeds)/2+1. Two seeds are the
	// worst choice, since both must be up; use three. Later, a node needs to reach only one seed.
	// Default: the node itself if Size is 1.
	//
	// The only entry may be srv: and a name such as _athena._udp.example.org, whose DNS SRV records
	// have the host:port of every member. Start then waits until there are Size records, but a node
	// with JoinOnly needs only that of another node, and a node that was a member before needs none.
	Seeds []string
	// Preference makes this node a more or less preferred leader. Among the members that can lead, a
	// member with the greatest preference is elected first. With member.NeverLeads, the node is a
	// witness: it votes but never leads. At least one node must not be a witness. Default: 0; the
	// maximum is member.MaxPreference. Preferences may differ between nodes, and Prefer changes them
	// at run time.
	Preference member.Preference
	// HandOverToPreferred makes a leader hand over to a more preferred member that has been active for
	// this time and hears a majority. After each short leadership, for example because its work fails,
	// such a member waits twice as long, up to 30 x TTLTimeout. HandOverToPreferred must be at least
	// LeaderTimeout, and should be the same on all nodes. Default: 0, preferences do not replace a
	// working leader.
	HandOverToPreferred time.Duration
	// SeatTimeout is how long this node, as the leader, keeps the seat of a member that left or was
	// lost. Until then, only a node at the same address gets the seat; afterwards, a new node at
	// another address may get it if the cluster is full. ReleaseSeats removes it earlier. The time
	// counts from the last message of the member or from the election of the leader, whichever is
	// later. It should be the same on all nodes. Default: DefaultSeatTimeout.
	SeatTimeout time.Duration
	// Labels describe this node to the other members, for example its role, zone or HTTP address. View
	// shows them on all members. All labels of a node together take at most member.MaxLabelBytes. Keys
	// and values must be printable, and keys must not contain '='. SetLabels changes them at run time.
	Labels map[string]string
	// JoinOnly keeps a node, such as a seed that lost its disk, from founding a new cluster.
	JoinOnly bool
	// TrustRefusal lets the other members replace a killed leader before its lease expires. If the
	// leader's host refuses packets to the leader's port, they assume that the process has ended. Set
	// it only if such a refusal (ICMP port unreachable) always comes from the host itself, not from a
	// proxy, a NAT or a firewall. Otherwise two nodes may lead at the same time for up to a
	// LeaseTimeout, although with different tokens. If TrustRefusal is false, a refusal only makes the
	// other members check the leader sooner.
	TrustRefusal bool
	// DataDir is the directory of the durable store, which is created if it does not exist. Each
	// process needs its own directory. A store belongs to one Cluster, Size and Advertise for its
	// lifetime (StoreMismatchError). If DataDir is empty, the store is in memory, and the node
	// forgets its votes when it ends. If a majority of the seeds restarts, a new cluster may be
	// founded, and its tokens start over. Use a directory if anything relies on tokens. If
	// DataDir is empty and Memory is false, the node logs a warning.
	DataDir string
	// Memory confirms that the node has no DataDir, for example in a test.
	Memory bool
	// Secret is shared by all nodes; a process without it cannot connect. It must be MinSecretBytes
	// or more random bytes, raw or in base64 (see NewSecret); passwords are refused. Without it and
	// without TLSCert a node is insecure, which is allowed only if Addr, Advertise and Seeds are on
	// loopback. Every byte counts, including line ends.
	Secret []byte
	// SecretFile is the file of Secret, which is then left empty. All trailing line ends ('\n' and
	// '\r') are removed, since editors add them. Files larger than 4 KiB are refused, and so are
	// files that users other than the owner can read. One exception: if this process does not run
	// as root, a file owned by root may be readable by its group, because container platforms mount
	// secrets like that.
	SecretFile string
	// OtherSecret is accepted in addition to Secret. To change the secret, give both the old and the
	// new secret to every node, then only the new one. SetCredentials changes them at run time.
	OtherSecret []byte
	// TLSCA, TLSCert and TLSKey are PEM files that replace Secret. They contain the CA certificates of
	// the cluster, the certificate of this node followed by any intermediates, and its private key.
	// Only the owner may have access to the file of the key. The certificate must be valid for both
	// client and server authentication. It names the host of Advertise as a DNS name or IP address, or
	// it has the URI athena:///CLUSTER/HOST:PORT, which is valid for this member only.
	//
	// If the files change, the node loads them at the next handshake; if they are invalid, it keeps
	// the previous certificate. Open connections are not affected; see SetCredentials.
	TLSCA, TLSCert, TLSKey string
	// TLSSPIFFE is the SPIFFE ID of all nodes, such as spiffe://example.org/athena. If it is set, the
	// certificates are X.509 SVIDs with this ID and need no host. TLSCA must have only the authorities
	// of the trust domain. As with a secret, any holder of such a certificate can use any address.
	TLSSPIFFE string
	// Insecure confirms that there is neither a secret nor a certificate: anyone who can reach the
	// port can join and read everything. Without a secret and a certificate, the default is true if
	// all addresses are on loopback. An insecure node logs a warning.
	Insecure bool
	// InsecureAnywhere allows Insecure with addresses that are not on loopback.
	InsecureAnywhere bool
	// Receiver has the handlers of this node; nil means none. It serves one node at a time.
	// Handlers may run before Start has returned the node; they get the node from FromContext.
	// Events without a handler are dropped with a warning.
	Receiver *receiver.Mux

	// Each timing must be between 1 ms and 24 h. Nodes with different timings refuse each other
	// (ConfigMismatchError), unless OtherTimings is set. The defaults are for a local network.

	// HeartbeatInterval is the time between heartbeats, at most half of HeartbeatTimeout.
	// Default: 100 ms.
	HeartbeatInterval time.Duration
	// HeartbeatTimeout is the silence after which a member counts as unreachable, at most
	// LeaderTimeout. Default: 400 ms.
	HeartbeatTimeout time.Duration
	// LeaderTimeout is the silence after which the leader counts as lost, at most TTLTimeout.
	// Default: 1 s.
	LeaderTimeout time.Duration
	// LeaseTimeout is how long a follower that has acknowledged its leader votes for no other node. It
	// must be more than 3.4 x HeartbeatInterval and at most LeaderTimeout. With a shorter lease, a
	// crashed leader is replaced sooner. But a leader that was only paused or cut off also loses its
	// authority sooner: after 0.9 x LeaseTimeout. Records of a silent member expire after
	// LeaderTimeout + LeaseTimeout, so that they survive the crash of a leader. If the previous run
	// had longer timeouts, Start first waits for the difference. Default: 0.7 x LeaderTimeout, but at
	// least 3.5 x HeartbeatInterval and at most LeaderTimeout.
	LeaseTimeout time.Duration
	// TTLTimeout is the silence after which a member is removed from the view. Default: 10 s.
	TTLTimeout time.Duration
	// RetryInterval is the time between attempts to join. Default: 500 ms.
	RetryInterval time.Duration
	// OtherTimings has timings that are accepted in addition to those of this node; its other fields
	// are ignored. To change the timings of a running cluster, restart each node with OtherTimings set
	// to the new ones, then each with the new timings and the former ones as OtherTimings, and then
	// each without OtherTimings. Each round must be complete before the next one begins. Default: nil.
	OtherTimings *Config
}

// DefaultConfig returns the default timings, which are for a local network.
func DefaultConfig() Config {
	return Config{
		HeartbeatInterval: 100 * time.Millisecond,
		HeartbeatTimeout:  400 * time.Millisecond,
		LeaderTimeout:     time.Second,
		TTLTimeout:        10 * time.Second,
		RetryInterval:     500 * time.Millisecond,
	}
}

// LocalConfig returns timings for nodes on one lightly loaded machine: a fifth of the defaults. A
// process that is not scheduled for 200 ms loses its leader.
func LocalConfig() Config {
	return Config{
		HeartbeatInterval: 20 * time.Millisecond,
		HeartbeatTimeout:  80 * time.Millisecond,
		LeaderTimeout:     200 * time.Millisecond,
		TTLTimeout:        2 * time.Second,
		RetryInterval:     100 * time.Millisecond,
	}
}

// WANConfig returns timings for nodes in several regions.
func WANConfig() Config {
	return Config{
		HeartbeatInterval: 500 * time.Millisecond,
		HeartbeatTimeout:  2 * time.Second,
		LeaderTimeout:     5 * time.Second,
		TTLTimeout:        30 * time.Second,
		RetryInterval:     2 * time.Second,
	}
}

// ClassicConfig returns the timings of the original design.
func ClassicConfig() Config {
	return Config{
		HeartbeatInterval: 10 * time.Second,
		HeartbeatTimeout:  30 * time.Second,
		LeaderTimeout:     90 * time.Second,
		TTLTimeout:        90 * time.Second,
		RetryInterval:     5 * time.Second,
	}
}
