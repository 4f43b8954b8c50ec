// SPDX-License-Identifier: Apache-2.0

package tlsnet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/transport"
)

// noCommonALPN is TLS's alert no_application_protocol.
const noCommonALPN tls.AlertError = 120

// The alerts with which a node refuses a certificate (RFC 8446, section 6.2).
var certificateAlerts = map[tls.AlertError]bool{
	42: true, 43: true, 44: true, 45: true, 46: true, 48: true, 49: true, 51: true, 116: true,
}

// translate turns errors of TLS and TCP into those of package transport.
func translate(err error) error {
	if err == nil || errors.Is(err, transport.ErrCertificate) {
		return err
	}
	if closed, ok := errors.AsType[*transport.CloseError](err); ok {
		return closed
	}
	if alert, ok := errors.AsType[tls.AlertError](err); ok {
		switch {
		case alert == noCommonALPN:
			return fmt.Errorf("%w: %w", transport.ErrNotNode, err)
		case certificateAlerts[alert]:
			return &transport.CertificateError{Why: "the other node refused that of this one"}
		}
	}
	if fault, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &transport.CertificateError{Why: describeCertificate(fault.Err)}
	}
	if isCertificateError(err) {
		return &transport.CertificateError{Why: describeCertificate(err)}
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fmt.Errorf("%w: %w", transport.ErrNotNode, err)
	}
	if fault, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Errorf("%w (%s)", transport.ErrUnknownHost, fault.Err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", transport.ErrNoAnswer, err)
	}
	return err
}

// isCertificateError reports whether crypto/x509 found a certificate invalid, in a
// verification of quicnet.CertificateTLS.
func isCertificateError(err error) bool {
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	return authority || invalid
}

// describeCertificate describes why the certificate of a peer is not accepted. The text does
// not change from one attempt to the next, so that logs do not repeat it.
func describeCertificate(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "that of the other node comes from another authority: " +
			"another secret, cluster name or file of authorities"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok &&
		invalid.Reason == x509.Expired {
		return fmt.Sprintf("that of the other node is valid from %s until %s, which is not now: "+
			"renew it, or correct the clocks", invalid.Cert.NotBefore.UTC().Format(time.RFC3339),
			invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
	}
	return safetext.PeerText(err.Error())
}
