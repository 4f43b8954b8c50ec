// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"crypto/x509"
	"fmt"
	"strings"

	"github.com/athena-go/athena/internal/message"
	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// uriScheme is the URI scheme of certificate names that are specific to Athena.
const uriScheme = "athena"

// maxNamed bounds the number of names of a certificate in an error.
const maxNamed = 8

// IdentityError means that a certificate is not valid for the member that its holder claims
// to be. It wraps transport.ErrCertificate.
type IdentityError struct {
	Address member.Address // of the member
	Names   []string       // in the certificate
}

// Error names the certificate and the member, and gives advice.
func (e *IdentityError) Error() string {
	return fmt.Sprintf("transport: certificate not accepted: it is for %s, not for %s: "+
		"give each node a certificate for the host that it advertises", e.For(), e.Address)
}

// For lists the names in the certificate.
func (e *IdentityError) For() string {
	if len(e.Names) == 0 {
		return "no host"
	}
	var names []string
	for _, name := range e.Names[:min(len(e.Names), maxNamed)] {
		names = append(names, safetext.QuotePeerText(name))
	}
	return strings.Join(names, ", ")
}

// Unwrap returns transport.ErrCertificate.
func (e *IdentityError) Unwrap() error { return transport.ErrCertificate }

// CheckIdentity returns an *IdentityError unless a certificate is valid for the member at an
// address. The certificate must name the host, as a DNS name or an IP address. If the certificate
// has URIs of the scheme athena, only these URIs count. athena:///CLUSTER/HOST:PORT is for one
// member of one cluster. The display name of a member is not an identity: several members may share
// it, so a certificate for it could be used under any address. An observer needs no name, but if
// its certificate has such URIs, one of them must be of the cluster.
func CheckIdentity(c *x509.Certificate, cluster string, who member.Address) error {
	var uris []string
	for _, uri := range c.URIs {
		if uri.Scheme != uriScheme {
			continue
		}
		uris = append(uris, uri.String())
		name, ours := strings.CutPrefix(uri.Path, "/"+cluster+"/")
		at, _ := member.ParseAddress(name) // in any form of an IPv6 address
		if uri.Host == "" && ours && (at == who || who.IsObserver()) {
			return nil
		}
	}
	if len(uris) > 0 {
		return &IdentityError{who, uris}
	}
	if who.IsObserver() || c.VerifyHostname(who.Host) == nil {
		return nil
	}
	var names []string
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return &IdentityError{who, append(names, c.DNSNames...)}
}

// checkIdentity checks that the certificate of a peer is valid for the member at an address.
func (m *Mesh) checkIdentity(conn transport.Conn, who member.Address) error {
	certificate := conn.Certificate()
	if certificate == nil {
		return nil
	}
	greet, _ := m.handler.Greet().Body.(message.Greet) // Start has checked the type
	return CheckIdentity(certificate, greet.Cluster, who)
}
