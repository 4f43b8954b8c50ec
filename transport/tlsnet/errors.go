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
	"slices"
	"time"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/transport"
)

// These are the alerts of RFC 8446, section 6.2, that translate knows: no_application_protocol, and
// the alerts with which a node refuses a certificate.
var protocolAlerts = []tls.AlertError{120}

var certificateAlerts = []tls.AlertError{42, 43, 44, 45, 46, 48, 49, 51, 116}

// isAlert reports whether the peer has sent an alert. Package crypto/tls exports the texts of
// alerts, but not their type outside of QUIC.
func isAlert(err error, alerts ...tls.AlertError) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" && slices.ContainsFunc(alerts,
		func(a tls.AlertError) bool { return op.Err.Error() == a.Error() })
}

// translate turns errors of TLS and TCP into those of package transport.
func translate(err error) error {
	if err == nil || errors.Is(err, transport.ErrCertificate) {
		return err
	}
	if closed, ok := errors.AsType[*transport.CloseError](err); ok {
		return closed
	}
	if isAlert(err, protocolAlerts...) {
		return fmt.Errorf("%w: %w", transport.ErrNotNode, err)
	}
	if isAlert(err, certificateAlerts...) {
		return &transport.CertificateError{Why: "the other node refused the certificate of this one"}
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

// isCertificateError reports whether err is from crypto/x509, which rejected a certificate in the
// verification of quicnet.CertificateTLS.
func isCertificateError(err error) bool {
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	return authority || invalid
}

// describeCertificate describes why the certificate of a peer is not accepted. The text is the same
// at each attempt, so that logs do not repeat it.
func describeCertificate(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the certificate of the other node is from another authority: " +
			"its secret, cluster name or CA file differs"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok &&
		invalid.Reason == x509.Expired {
		return fmt.Sprintf("the certificate of the other node is valid only from %s to %s: "+
			"renew it, or correct the clocks", invalid.Cert.NotBefore.UTC().Format(time.RFC3339),
			invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
	}
	return safetext.PeerText(err.Error())
}
