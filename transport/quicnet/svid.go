// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/athena-go/athena/internal/safetext"
)

// checkSVID checks that a certificate is the X.509 SVID of the SPIFFE ID: it has this URI and no
// other, and cannot sign certificates.
func (c Credentials) checkSVID(leaf *x509.Certificate) error {
	const signs = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	switch {
	case c.SPIFFE == "":
		return nil
	case len(leaf.URIs) != 1 || leaf.URIs[0].String() != c.SPIFFE:
		return fmt.Errorf("the certificate has the URIs %s, want only %s",
			safetext.QuotePeerText(fmt.Sprint(leaf.URIs)), c.SPIFFE)
	case leaf.IsCA || leaf.KeyUsage&signs != 0 || leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0:
		return errors.New("a SPIFFE ID needs keyUsage = digitalSignature, and no right to sign others")
	}
	return nil
}
