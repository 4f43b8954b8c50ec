// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/athena-go/athena/internal/safetext"
	"github.com/athena-go/athena/transport"
)

// noCommonALPN is the TLS alert no_application_protocol as a QUIC error code.
const noCommonALPN = 0x100 + 120

// translateError turns an error of QUIC into one of package transport.
func translateError(err error) error {
	if closed, ok := errors.AsType[*quic.ApplicationError](err); ok {
		return &transport.CloseError{
			Code:   transport.Code(closed.ErrorCode),
			Reason: safetext.PeerText(closed.ErrorMessage),
			Remote: closed.Remote,
		}
	}
	if reset, ok := errors.AsType[*quic.StreamError](err); ok && reset.Remote {
		return transport.ErrStreamReset
	} else if ok || errors.Is(err, quic.ErrStreamClosed) {
		return transport.ErrStreamClosed
	}
	fault, ok := errors.AsType[*quic.TransportError](err)
	if ok && fault.Remote {
		own := *fault
		own.ErrorMessage = safetext.PeerText(fault.ErrorMessage)
		fault, err = &own, &own
	}
	switch {
	case ok && fault.ErrorCode == noCommonALPN:
		return fmt.Errorf("%w: %w", transport.ErrNotNode, err)
	case ok && fault.ErrorCode.IsCryptoError():
		return &transport.CertificateError{Why: describeRefusal(fault)}
	case ok && !fault.Remote && strings.HasSuffix(fault.ErrorMessage, syscall.EPERM.Error()):
		return fmt.Errorf("send: %w", syscall.EPERM) // QUIC kept only its text
	}
	// These are timeouts of QUIC, for the handshake and for the connection.
	_, handshake := errors.AsType[*quic.HandshakeTimeoutError](err)
	if _, idle := errors.AsType[*quic.IdleTimeoutError](err); idle || handshake {
		return fmt.Errorf("%w: %w", transport.ErrNoAnswer, err)
	}
	return err
}

// describeRefusal returns which node refused a certificate and, if this node did, why.
func describeRefusal(fault *quic.TransportError) string {
	if fault.Remote {
		return "the other node refused the certificate of this one"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](fault); ok {
		return "the certificate of the other node is from another authority: " +
			"its secret, cluster name or CA file differs"
	}
	if wrong, ok := errors.AsType[x509.CertificateInvalidError](fault); ok {
		return describeInvalid(wrong)
	}
	return safetext.PeerText(fault.Error())
}

// describeInvalid returns what is wrong with a certificate. Unlike the text of crypto/x509,
// its result does not contain the current time, so it does not change.
func describeInvalid(wrong x509.CertificateInvalidError) string {
	subject := "the certificate of the other node"
	if wrong.Cert.IsCA {
		subject = "an authority of the certificate of the other node"
	}
	if wrong.Reason != x509.Expired {
		return subject + ": " + safetext.PeerText(wrong.Error())
	}
	return fmt.Sprintf("%s is valid only from %s to %s: renew it, or correct the clocks",
		subject, wrong.Cert.NotBefore.UTC().Format(time.RFC3339),
		wrong.Cert.NotAfter.UTC().Format(time.RFC3339))
}
