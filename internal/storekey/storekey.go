// SPDX-License-Identifier: Apache-2.0

// Package storekey proves which store a node speaks for. Each store has a private key, and the id
// of the store is the hash of the public key. A node signs the channel binding of each of its
// connections with the key. So only a process that holds the store can speak for its id, and a
// signature is worth nothing on another connection (protocol.md section 8).
package storekey

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/athena-go/athena/member"
)

// ErrUnproved means that a peer has not proved that it holds the store whose id it claims.
var ErrUnproved = errors.New("transport: the peer does not hold the store that it claims")

// Sizes in bytes.
const (
	KeyBytes       = ed25519.SeedSize
	PublicBytes    = ed25519.PublicKeySize
	SignatureBytes = ed25519.SignatureSize
)

// Key is the private key of a store, the seed of an Ed25519 key.
type Key [KeyBytes]byte

// New returns a random key.
func New() (k Key) {
	_, _ = rand.Read(k[:]) // never fails
	return k
}

// StoreID returns the id of the store that has the key.
func (k Key) StoreID() member.StoreID { return storeID(k.private().Public().(ed25519.PublicKey)) }

// Sign returns the public key, and the proof that this node holds the private key, for one
// connection. binding is the channel binding of the connection. active is set by the dialer, so
// that neither end can return the proof of the other one as its own.
func (k Key) Sign(
	binding []byte, active bool,
) (public [PublicBytes]byte, signature [SignatureBytes]byte) {
	return k.signText(statement(binding, active))
}

// SignEnd returns the public key, and the proof that the runs of the store before run have ended.
func (k Key) SignEnd(
	cluster member.ClusterID, run member.Identity,
) (public [PublicBytes]byte, signature [SignatureBytes]byte) {
	return k.signText(endStatement(cluster, run))
}

func (k Key) signText(statement []byte) (public [PublicBytes]byte, signature [SignatureBytes]byte) {
	private := k.private()
	copy(public[:], private[KeyBytes:])
	copy(signature[:], ed25519.Sign(private, statement))
	return public, signature
}

// MarshalText returns the key in lower-case hexadecimal.
func (k Key) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(k[:])), nil }

// UnmarshalText parses 64 hexadecimal digits.
func (k *Key) UnmarshalText(b []byte) error {
	if len(b) != 2*len(k) {
		return fmt.Errorf("storekey: want %d hexadecimal digits", 2*len(k))
	}
	if _, err := hex.Decode(k[:], b); err != nil {
		return fmt.Errorf("storekey: want %d hexadecimal digits", 2*len(k)) // without the digits
	}
	return nil
}

// String hides the key, so that no log shows it.
func (Key) String() string { return "(secret)" }

// GoString is like String.
func (k Key) GoString() string { return k.String() }

func (k Key) private() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(k[:]) }

// Check returns ErrUnproved unless the proof of a peer is valid for a store and a connection.
// active is set if the peer dialed.
func Check(
	id member.StoreID, public [PublicBytes]byte, signature [SignatureBytes]byte,
	binding []byte, active bool,
) error {
	return checkSignature(id, public, signature, statement(binding, active))
}

// CheckEnd returns ErrUnproved unless the store of run has signed that its runs before run have
// ended.
func CheckEnd(
	cluster member.ClusterID, run member.Identity,
	public [PublicBytes]byte, signature [SignatureBytes]byte,
) error {
	return checkSignature(run.StoreID, public, signature, endStatement(cluster, run))
}

func checkSignature(
	id member.StoreID, public [PublicBytes]byte, signature [SignatureBytes]byte, statement []byte,
) error {
	if storeID(public[:]) != id || !ed25519.Verify(public[:], statement, signature[:]) {
		return ErrUnproved
	}
	return nil
}

func storeID(public []byte) (id member.StoreID) {
	digest := sha256.Sum256(public)
	copy(id[:], digest[:])
	return id
}

// statement returns the signed bytes. The text before the binding keeps a signature from meaning
// anything else.
func statement(binding []byte, active bool) []byte {
	role := "athena store, passive\x00"
	if active {
		role = "athena store, active\x00"
	}
	return slices.Concat([]byte(role), binding)
}

func endStatement(cluster member.ClusterID, run member.Identity) []byte {
	b := append([]byte("athena store, ended\x00"), cluster[:]...)
	b = append(b, run.StoreID[:]...)
	b = binary.BigEndian.AppendUint64(b, run.Incarnation)
	return append(b, run.Address.String()...)
}
