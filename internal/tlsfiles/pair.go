// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"
)

// ReadPair reads a certificate, followed by its intermediates, and its private key. Both are PEM
// files. It refuses a certificate that is not valid now.
func ReadPair(certPath, keyPath string, now time.Time) (*tls.Certificate, error) {
	cert, err := readRegular(certPath, maxPEMBytes, false)
	if err != nil {
		return nil, err
	}
	key, err := readRegular(keyPath, maxPEMBytes, true)
	if err != nil {
		return nil, err
	}
	chain, err := parseCertificates(cert)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certPath, err)
	}
	if first := chain[0]; now.Before(first.NotBefore) || now.After(first.NotAfter) {
		return nil, fmt.Errorf("%s: is valid from %s to %s; renew it, or correct the clock",
			certPath, formatTime(first.NotBefore), formatTime(first.NotAfter))
	}
	if err := checkKey(key); err != nil {
		return nil, fmt.Errorf("%s: %w", keyPath, err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s: does not match %s: %w", keyPath, certPath, err)
	}
	return &pair, nil
}

// ReadAuthorities reads a PEM file with the certificates of authorities.
func ReadAuthorities(path string) (*x509.CertPool, error) {
	text, err := readRegular(path, maxPEMBytes, false)
	if err != nil {
		return nil, err
	}
	all, err := parseCertificates(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	pool := x509.NewCertPool()
	for _, one := range all {
		pool.AddCert(one)
	}
	return pool, nil
}
