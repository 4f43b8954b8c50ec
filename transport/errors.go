// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"fmt"

	"github.com/athena-go/athena/internal/safetext"
)

// Errors of a Network, its connections and their streams.
var (
	// ErrAddressInUse reports that another process listens on the address.
	ErrAddressInUse = errors.New("transport: address already in use")
	// ErrNoAnswer reports that the address of a peer did not answer.
	ErrNoAnswer = errors.New("transport: no answer")
	// ErrUnknownHost reports that the host name of a peer could not be resolved.
	ErrUnknownHost = errors.New("transport: unknown host")
	// ErrCertificate reports that one of two nodes does not accept the other's certificate.
	ErrCertificate = errors.New("transport: certificate not accepted: " +
		"give every node the same secret and the same cluster name, " +
		"or certificates of one authority, and check the clocks")
	// ErrNotNode reports that the program at the address is not an Athena node.
	ErrNotNode = errors.New("transport: the program that answers is not an Athena node")

	// ErrTooManyStreams reports that MaxStreams streams to the peer are already open.
	ErrTooManyStreams = errors.New("transport: too many streams to the peer: close one, or try later")
	// ErrStreamClosed reports that this node has closed the stream, or this direction.
	ErrStreamClosed = errors.New("transport: stream closed")
	// ErrStreamReset reports that the peer closed the stream before its end.
	ErrStreamReset = errors.New("transport: the peer closed the stream")
)

// Code is the reason why a connection was closed. The numbers are part of the protocol.
type Code uint64

// The codes.
const (
	CodeClosed     Code = iota // the node is shutting down or no longer needs the connection
	CodeRefused                // the greeting was refused, for the given reason
	CodeDuplicate              // the other connection of these two nodes is kept
	CodeReplaced               // a later connection of the peer replaced it
	CodeEarlierRun             // a later run of the node is connected
	CodeBusy                   // too many peers or pending greetings
	CodeGarbage                // the peer sent bytes that are not a frame
	CodeTimeout                // the peer did not greet, read or leave in time
	CodeLeft                   // each end has received everything that the other one wrote
	// CodeUnproved refuses a dialer that this node did not reach at the dialer's address.
	CodeUnproved
	// CodeAddressTaken refuses a dialer whose address belongs to another process, which answers.
	CodeAddressTaken
	// CodeAddressHeld refuses a dialer whose address has a connection to another store.
	CodeAddressHeld
	codes
)

var codeNames = [codes]string{
	"closed", "refused", "duplicate", "replaced", "earlier run", "busy", "garbage", "timeout",
	"left", "unproved", "address taken", "address held",
}

// String returns the name of the code in logs.
func (c Code) String() string { return nameOf(codeNames[:], c) }

// CloseError reports that a connection was closed, and which end closed it.
type CloseError struct {
	Code   Code
	Reason string // one line of text for people
	Remote bool   // the peer closed it
}

// Error replaces unprintable characters of the reason, because a peer may send any bytes.
func (e *CloseError) Error() string {
	who := "connection closed"
	if e.Remote {
		who = "the peer closed the connection"
	}
	return fmt.Sprintf("transport: %s (%s): %s", who, e.Code, safetext.PeerText(e.Reason))
}

// CertificateError reports why one of two nodes does not accept the other's certificate. It
// wraps ErrCertificate. The text is the same at each attempt, so that logs do not repeat
// it.
type CertificateError struct{ Why string }

// Error returns the text of ErrCertificate, which contains advice, and the reason.
func (e *CertificateError) Error() string { return fmt.Sprintf("%v (%s)", ErrCertificate, e.Why) }

// Unwrap returns ErrCertificate.
func (e *CertificateError) Unwrap() error { return ErrCertificate }

// ConfigMismatchError reports a difference in configuration that keeps two nodes
// out of one cluster.
type ConfigMismatchError struct {
	Field  string // name of the field in the configuration, or Protocol
	Ours   string
	Theirs string
}

// Error names both values and the remedy.
func (e *ConfigMismatchError) Error() string { return "transport: " + e.Text(e.Field) }

// Text returns the text of Error, with field in place of Field, unless Field is Advertise.
func (e *ConfigMismatchError) Text(field string) string {
	advice := "configure the same on every node"
	switch e.Field {
	case "Advertise":
		field = "the advertised address" // here it may be a seed, not the value of this node's field
		advice = "correct it, the seeds (--advertise, --seeds), or where the name leads in DNS: each " +
			"node must be dialed at the address that it advertises"
	case "Protocol":
		advice = "upgrade the older program"
	case "ClusterID":
		advice = "these are members of two clusters that share a name and a secret: remove the " +
			"nodes of one from the seeds of the other, and give each cluster its own name and secret; " +
			"after athena recover on one node, run it on every node of the old cluster"
	}
	return fmt.Sprintf("%s differs: %s here, %s at the peer: %s",
		field, safetext.QuotePeerText(e.Ours), safetext.QuotePeerText(e.Theirs), advice)
}

func nameOf[T ~uint8 | ~uint64](names []string, v T) string {
	if uint64(v) < uint64(len(names)) {
		return names[v]
	}
	return fmt.Sprintf("unknown(%d)", v)
}
