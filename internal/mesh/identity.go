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

// uriScheme begins the names of certificates that are for Athena alone.
const uriScheme = "athena"

// maxNamed bounds how many names of a certificate an error lists.
const maxNamed = 8

// IdentityError says that the holder of a certificate wants to be a member that
// the certificate is not for. It wraps ErrCertificate.
type IdentityError struct {
	Address member.Address // that the certificate should be for
	Names   []string       // that it is for, as they stand in it
}

// Error names both, and what to do.
func (e *IdentityError) Error() string {
	return fmt.Sprintf("transport: certificate not accepted: it is for %s, not for %s: "+
		"give each node one for the host that it advertises", e.For(), e.Address)
}

// For lists the names.
func (e *IdentityError) For() string {
	if len(e.Names) == 0 {
		return "nobody"
	}
	var names []string
	for _, name := range e.Names[:min(len(e.Names), maxNamed)] {
		names = append(names, safetext.QuotePeerText(name))
	}
	return strings.Join(names, ", ")
}

// Unwrap is ErrCertificate.
func (e *IdentityError) Unwrap() error { return transport.ErrCertificate }

// CheckIdentity reports whether a certificate lets its holder be the member of an
// address; where not, the error is an *IdentityError. The certificate has to name the
// host, as a DNS name or an IP address. Where it has a URI of the scheme athena,
// only such URIs count: athena:///CLUSTER/HOST:PORT is good for one member of one
// cluster. The name that a member shows to people is no identity: two members may
// have the same, and who was trusted by it could take any address.
func CheckIdentity(c *x509.Certificate, cluster string, who member.Address) error {
	exact := false
	for _, uri := range c.URIs {
		if uri.Scheme != uriScheme {
			continue
		}
		exact = true
		if uri.Host == "" && uri.Path == "/"+cluster+"/"+who.String() {
			return nil
		}
	}
	if !exact && c.VerifyHostname(who.Host) == nil {
		return nil
	}
	return &IdentityError{who, namesOf(c, exact)}
}

// namesOf lists the names of a certificate that count; exact says that these are
// URIs.
func namesOf(c *x509.Certificate, exact bool) (names []string) {
	for _, uri := range c.URIs {
		if uri.Scheme == uriScheme {
			names = append(names, uri.String())
		}
	}
	if exact {
		return names
	}
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return append(names, c.DNSNames...)
}

// identify checks that the peer of a connection may be the member of an address.
func (m *Mesh) identify(conn transport.Conn, who member.Address) error {
	certificate := conn.Certificate()
	if certificate == nil {
		return nil
	}
	greet, _ := m.handler.Greet().Body.(message.Greet) // Start has checked it
	return CheckIdentity(certificate, greet.Cluster, who)
}
