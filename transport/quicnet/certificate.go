// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"time"
)

// Credentials are what a node with a certificate of its own shows, and whom it
// believes.
type Credentials struct {
	// Certificate has its private key, and behind it the authorities between it and
	// one of Authorities, which the peers then need not know.
	Certificate *tls.Certificate
	Authorities *x509.CertPool
}

// CertificateTLS returns the TLS of a node whose cluster has a PKI of its own.
// current is asked at each handshake and may return others each time. A peer needs
// a certificate that comes from one of Authorities, for both sides of a handshake.
// Which member it is for is looked at when it greets: Config.Named has to be set.
func CertificateTLS(current func() Credentials, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		Time:       now,
		// What crypto/tls would verify takes authorities that never change and a name
		// that is known before: VerifyConnection verifies instead, on both sides.
		InsecureSkipVerify: true,
		ClientAuth:         tls.RequireAnyClientCert,
		VerifyConnection: func(state tls.ConnectionState) error {
			_, err := current().Verify(state.PeerCertificates, now())
			return err
		},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return current().Certificate, nil
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return current().Certificate, nil
		},
	}
}

// nodeUsages are what a certificate has to be for: each node dials and is dialed.
var nodeUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

var errUsage = errors.New("the certificate is not for both sides of a handshake: " +
	"make it with extendedKeyUsage = serverAuth, clientAuth")

// Verify checks a chain, the certificate of the node first: that it comes from one
// of Authorities, is good at a time, and for both sides of a handshake. It is no longer
// from until on, when it ends, or an authority above it does.
func (c Credentials) Verify(chain []*x509.Certificate, at time.Time) (until time.Time, err error) {
	if len(chain) == 0 {
		return until, errors.New("no certificate was shown")
	}
	between := x509.NewCertPool()
	for _, authority := range chain[1:] {
		between.AddCert(authority)
	}
	for _, usage := range nodeUsages {
		ways, err := chain[0].Verify(x509.VerifyOptions{
			Roots:         c.Authorities,
			Intermediates: between,
			CurrentTime:   at,
			KeyUsages:     []x509.ExtKeyUsage{usage},
		})
		if err != nil {
			return until, err
		}
		// To Verify a certificate without any usage is good for all.
		if !slices.Contains(chain[0].ExtKeyUsage, usage) {
			return until, errUsage
		}
		until = lastEnd(ways)
	}
	return until, nil
}

// lastEnd is when the last of some chains ends, as each does with its first certificate.
func lastEnd(chains [][]*x509.Certificate) (last time.Time) {
	for _, chain := range chains {
		end := chain[0].NotAfter
		for _, c := range chain[1:] {
			if c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(last) {
			last = end
		}
	}
	return last
}
