// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/quicnet"
)

const (
	// maxPEMBytes bounds a file of certificates, or of a key.
	maxPEMBytes = 1 << 20
	// maxChainBytes bounds what a node shows: quic-go takes 16 KiB of a peer in a
	// handshake, and a signature and some words come with it.
	maxChainBytes = 15 << 10
)

// pemFiles are the contents of TLSCA, TLSCert and TLSKey.
type pemFiles struct{ ca, cert, key []byte }

// digest tells contents apart.
func (f pemFiles) digest() [sha256.Size]byte {
	h := sha256.New()
	for _, part := range [][]byte{f.ca, f.cert, f.key} {
		sum := sha256.Sum256(part)
		h.Write(sum[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// usesFiles reports whether certificates come from files.
func (c Config) usesFiles() bool { return c.TLSCA != "" || c.TLSCert != "" || c.TLSKey != "" }

// readPEM reads the three files. The faults are all that there are.
func (c Config) readPEM() (f pemFiles, faults faults) {
	for _, part := range []struct {
		field, path string
		private     bool
		into        *[]byte
	}{
		{"TLSCA", c.TLSCA, false, &f.ca},
		{"TLSCert", c.TLSCert, false, &f.cert},
		{"TLSKey", c.TLSKey, true, &f.key},
	} {
		text, err := readRegular(part.path, maxPEMBytes, part.private)
		faults.check(err == nil, "%s: %w", part.field, err)
		*part.into = text
	}
	return f, faults
}

// credentials are what a handshake needs.
type credentials struct {
	quicnet.Credentials
	until time.Time // the certificate, and each authority above it, is good
}

// credentials makes them of the files, for the member at an address. A certificate that
// no peer would accept is a fault.
func (c Config) credentials(f pemFiles, self member.Address, now time.Time) (
	made credentials, faults faults,
) {
	made.Authorities = x509.NewCertPool()
	authorities, err := certificatesOf(f.ca)
	faults.check(err == nil, "TLSCA %s: %w", c.TLSCA, err)
	for _, a := range authorities {
		made.Authorities.AddCert(a)
	}
	chain, err := certificatesOf(f.cert)
	faults.check(err == nil, "TLSCert %s: %w", c.TLSCert, err)
	err = plainKey(f.key)
	faults.check(err == nil, "TLSKey %s: %w", c.TLSKey, err)
	if len(faults) > 0 {
		return made, faults
	}
	pair, err := tls.X509KeyPair(f.cert, f.key)
	if err != nil {
		faults.check(false, "TLSKey %s: is not the key of TLSCert %s: %s",
			c.TLSKey, c.TLSCert, strings.TrimPrefix(err.Error(), "tls: "))
		return made, faults
	}
	made.Certificate = &pair
	shown := 0
	for _, der := range pair.Certificate {
		shown += len(der)
	}
	faults.check(shown <= maxChainBytes, "TLSCert %s: %d bytes of certificates, and a handshake "+
		"takes %d: leave out names, and authorities that are in TLSCA of the others",
		c.TLSCert, shown, maxChainBytes)
	faults.check(!now.After(chain[0].NotAfter),
		"TLSCert %s: ended at %s: make another one", c.TLSCert, rfc3339(chain[0].NotAfter))
	faults.check(!now.Before(chain[0].NotBefore), "TLSCert %s: begins at %s: correct the clock"+
		" of this machine, or make another one", c.TLSCert, rfc3339(chain[0].NotBefore))
	if len(faults) > 0 {
		return made, faults
	}
	if made.until, err = made.Verify(chain, now); err != nil {
		faults.check(false, "TLSCert %s: no node would accept it by TLSCA %s: %w",
			c.TLSCert, c.TLSCA, err)
	}
	if self.IsZero() {
		return made, faults // told as a fault of the address
	}
	if err := transport.CheckIdentity(chain[0], c.Cluster, self); err != nil {
		faults.check(false, "TLSCert %s: no node would accept it of this one: %w", c.TLSCert, err)
	}
	return made, faults
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

const beginning = "-----BEGIN "

// blocksOf reads all blocks of a file in PEM. pem.Decode passes over what is none: of a
// file that was cut off, or pasted with spaces, the last authorities would be missing,
// and nothing would be said.
func blocksOf(text []byte) (all []*pem.Block, err error) {
	begun := 0
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(bytes.TrimLeft(line, " \t\ufeff"), []byte(beginning)) {
			begun++
		}
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		all = append(all, block)
	}
	if len(all) < begun {
		return nil, fmt.Errorf("%d of its %d blocks of PEM cannot be read: damaged, cut off or "+
			"indented; write the whole file anew", begun-len(all), begun)
	}
	return all, nil
}

// certificatesOf reads all certificates of a file in PEM, of which there is one.
func certificatesOf(text []byte) (all []*x509.Certificate, err error) {
	blocks, err := blocksOf(text)
	if err != nil {
		return nil, err
	}
	others := ""
	for _, block := range blocks {
		if block.Type != "CERTIFICATE" {
			others = block.Type
			continue
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d of the file: %w", len(all)+1, err)
		}
		all = append(all, one)
	}
	switch {
	case len(all) > 0:
		return all, nil
	case others != "":
		return nil, fmt.Errorf("holds no certificate, but %q: name another file", others)
	default:
		return nil, errors.New("holds no certificate in PEM: it has to begin with " +
			beginning + "CERTIFICATE-----")
	}
}

// plainKey looks for a private key that can be used as it is.
func plainKey(text []byte) error {
	blocks, err := blocksOf(text)
	if err != nil {
		return err
	}
	for _, block := range blocks {
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
			return errors.New("is encrypted, and nobody is there to ask: decrypt it with: " +
				"(umask 077; openssl pkey -in FILE -out KEY)")
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return nil
		}
	}
	return errors.New("holds no private key in PEM: it has to begin with " +
		beginning + "PRIVATE KEY----- or the like")
}

// checkFiles finds what is wrong with certificates from files. It reads them.
func (f *faults) checkFiles(c Config, self member.Address) {
	missing := false
	for _, part := range [][2]string{
		{"TLSCA", c.TLSCA}, {"TLSCert", c.TLSCert}, {"TLSKey", c.TLSKey},
	} {
		f.check(part[1] != "", "%s is missing: the three files are needed together", part[0])
		missing = missing || part[1] == ""
	}
	if missing {
		return
	}
	files, wrong := c.readPEM()
	if len(wrong) == 0 {
		_, wrong = c.credentials(files, self, time.Now())
	}
	*f = append(*f, wrong...)
}

// resetSecret is what the key of stateless resets is derived from where there is no
// store to keep one: nobody but the nodes may know it.
func (c Config) resetSecret() ([]byte, error) {
	if !c.usesFiles() {
		return c.Secret, nil
	}
	key, err := readRegular(c.TLSKey, maxPEMBytes, true)
	if err != nil {
		return nil, fmt.Errorf("TLSKey: %w", err)
	}
	return bytes.TrimSpace(key), nil
}
