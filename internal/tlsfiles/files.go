// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/fielderr"
	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport/quicnet"
)

const (
	// maxPEMBytes bounds a file of certificates or of a key.
	maxPEMBytes = 1 << 20
	// MaxChainBytes bounds the certificate chain of a node. quic-go accepts 16 KiB from a
	// peer in a handshake, including the signature and other fields.
	MaxChainBytes = 15 << 10
)

// Files holds the paths of three PEM files. An error in one of them names the field TLSCA,
// TLSCert or TLSKey of cluster.Config.
type Files struct {
	CA   string // CA certificates of the cluster
	Cert string // certificate of this node, followed by the intermediates
	Key  string // its private key
	// SPIFFE, if set, is the SPIFFE ID of all nodes, whose certificates name no host.
	SPIFFE string
}

// Identity is the member for which the certificate must be valid.
type Identity struct {
	Cluster string
	Self    member.Address // not checked if it is zero
}

// Used reports whether any path is set.
func (f Files) Used() bool { return f.CA != "" || f.Cert != "" || f.Key != "" }

// Check reads the files and returns all their faults. It checks the dates against the current time.
func (f Files) Check(id Identity, now time.Time) []error {
	var faults fielderr.List
	for _, part := range f.parts() {
		faults.Check(part.path != "", part.field, "is missing: all three files are required")
	}
	if len(faults) > 0 {
		return faults
	}
	texts, faults := f.readFiles()
	if len(faults) > 0 {
		return faults
	}
	_, faults = f.parseFiles(texts, id, now)
	return faults
}

// ReadKey returns the private key in PEM without surrounding spaces.
func (f Files) ReadKey() ([]byte, error) {
	key, err := readRegular(f.Key, maxPEMBytes, true)
	if err != nil {
		return nil, &fielderr.Error{Field: "TLSKey", Index: -1, Err: err}
	}
	return bytes.TrimSpace(key), nil
}

// part is one of the files.
type part struct {
	field, path string
	private     bool // only the owner may have permission to read it
}

func (f Files) parts() [3]part {
	return [3]part{
		{"TLSCA", f.CA, false}, {"TLSCert", f.Cert, false}, {"TLSKey", f.Key, true},
	}
}

// contents holds the texts of the files, in the order of Files.parts.
type contents [3][]byte

func (c contents) digest() [sha256.Size]byte {
	h := sha256.New()
	for _, text := range c {
		sum := sha256.Sum256(text)
		h.Write(sum[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func (f Files) readFiles() (c contents, faults fielderr.List) {
	for i, part := range f.parts() {
		text, err := readRegular(part.path, maxPEMBytes, part.private)
		faults.Add(part.field, err)
		c[i] = text
	}
	return c, faults
}

// credentials is the data for a handshake.
type credentials struct {
	quicnet.Credentials
	until time.Time // when the certificate or its chain expires
}

// parseFiles makes credentials from the files. It reports a fault if peers would refuse the
// certificate.
func (f Files) parseFiles(c contents, id Identity, now time.Time) (
	made credentials, faults fielderr.List,
) {
	ca, cert, key := c[0], c[1], c[2]
	made.Authorities, made.SPIFFE = x509.NewCertPool(), f.SPIFFE
	authorities, err := parseCertificates(ca)
	faults.Check(err == nil, "TLSCA", "%s: %w", f.CA, err)
	for _, a := range authorities {
		made.Authorities.AddCert(a)
	}
	chain, err := parseCertificates(cert)
	faults.Check(err == nil, "TLSCert", "%s: %w", f.Cert, err)
	err = checkKey(key)
	faults.Check(err == nil, "TLSKey", "%s: %w", f.Key, err)
	if len(faults) > 0 {
		return made, faults
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		faults.Check(false, "TLSKey", "%s: does not match %s %s: %s",
			f.Key, fielderr.Name("TLSCert"), f.Cert, strings.TrimPrefix(err.Error(), "tls: "))
		return made, faults
	}
	made.Certificate = &pair
	checkChain(&faults, f.Cert, pair.Certificate, chain[0], now)
	if len(faults) > 0 {
		return made, faults
	}
	if made.until, err = made.Verify(chain, now); err != nil {
		faults.Check(false, "TLSCert", "%s: no node that uses %s %s would accept it: %w",
			f.Cert, fielderr.Name("TLSCA"), f.CA, err)
	}
	if id.Self.IsZero() || f.SPIFFE != "" {
		return made, faults // the caller reports the address, or it is not in the certificate
	}
	if err := mesh.CheckIdentity(chain[0], id.Cluster, id.Self); err != nil {
		faults.Check(false, "TLSCert", "%s: no node would accept it from this node: %w", f.Cert, err)
	}
	return made, faults
}

// checkChain checks the size of a chain and the dates of its first certificate.
func checkChain(
	faults *fielderr.List, path string, chain [][]byte, first *x509.Certificate, now time.Time,
) {
	size := 0
	for _, der := range chain {
		size += len(der)
	}
	faults.Check(size <= MaxChainBytes, "TLSCert", "%s: %d bytes of certificates, but a handshake "+
		"carries at most %d: leave out names, and authorities that the other nodes have in %s",
		path, size, MaxChainBytes, fielderr.Name("TLSCA"))
	faults.Check(!now.After(first.NotAfter), "TLSCert",
		"%s: expired at %s; renew it", path, formatTime(first.NotAfter))
	faults.Check(!now.Before(first.NotBefore), "TLSCert", "%s: is not valid before %s; correct the "+
		"clock of this machine, or renew the certificate", path, formatTime(first.NotBefore))
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
