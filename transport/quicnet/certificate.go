// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"time"
)

// Credentials holds the certificate of a node and the authorities that it trusts.
type Credentials struct {
	// Certificate contains the private key, and any intermediates up to one of Authorities, so that
	// peers need not have them.
	Certificate *tls.Certificate
	Authorities *x509.CertPool
	// SPIFFE, if set, is the SPIFFE ID that each certificate must have.
	SPIFFE string
}

// CertificateTLS returns the TLS configuration of a node whose cluster has its own PKI. At each
// handshake it calls current, which may return different credentials each time. It accepts a peer
// whose certificate was issued by one of Authorities and allows both sides of a handshake. The
// identity in the certificate is checked when the peer greets, so Config.Named must be set, unless
// all nodes have one SPIFFE ID.
func CertificateTLS(current func() Credentials, now func() time.Time) *tls.Config {
	certificate := func() (*tls.Certificate, error) { return current().Certificate, nil }
	return newMutualTLS(now, certificate, func(chain []*x509.Certificate) error {
		_, err := current().Verify(chain, now())
		return err
	})
}

// newMutualTLS returns the TLS configuration of a node that verifies the certificates of its peers
// with the function verify. The verification of crypto/tls needs fixed authorities and a name known
// in advance, so VerifyConnection replaces it on both sides.
func newMutualTLS(
	now func() time.Time, certificate func() (*tls.Certificate, error),
	verify func(chain []*x509.Certificate) error,
) *tls.Config {
	config := newTLS(now, certificate)
	config.InsecureSkipVerify = true
	config.ClientAuth = tls.RequireAnyClientCert
	config.VerifyConnection = func(state tls.ConnectionState) error {
		return verify(state.PeerCertificates)
	}
	return config
}

// newTLS returns the TLS configuration of a node that presents a certificate on both sides
// of a handshake.
func newTLS(now func() time.Time, certificate func() (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		Time:           now,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return certificate()
		},
	}
}

// nodeUsages are the usages that a certificate must allow, because each node is both client and
// server.
var nodeUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

var errNoCertificate = errors.New("the peer sent no certificate")

var errUsage = errors.New("the certificate does not allow both sides of a handshake: " +
	"make it with extendedKeyUsage = serverAuth, clientAuth")

// Verify checks a chain, which starts with the certificate of the node. The chain must lead to one
// of Authorities, be valid at the given time, and allow both sides of a handshake. The result until
// is when the certificate or its chain expires.
func (c Credentials) Verify(chain []*x509.Certificate, at time.Time) (until time.Time, err error) {
	if len(chain) == 0 {
		return until, errNoCertificate
	}
	between := x509.NewCertPool()
	for _, authority := range chain[1:] {
		between.AddCert(authority)
	}
	for _, usage := range nodeUsages {
		chains, err := chain[0].Verify(x509.VerifyOptions{
			Roots:         c.Authorities,
			Intermediates: between,
			CurrentTime:   at,
			KeyUsages:     []x509.ExtKeyUsage{usage},
		})
		if err != nil {
			return until, err
		}
		// Certificate.Verify accepts a certificate that lists no usage.
		if !slices.Contains(chain[0].ExtKeyUsage, usage) {
			return until, errUsage
		}
		until = latestExpiry(chains)
	}
	return until, c.checkSVID(chain[0])
}

// latestExpiry returns when the last of the chains expires. A chain expires when one of its
// certificates does.
func latestExpiry(chains [][]*x509.Certificate) (latest time.Time) {
	for _, chain := range chains {
		end := chain[0].NotAfter
		for _, c := range chain[1:] {
			if c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(latest) {
			latest = end
		}
	}
	return latest
}
