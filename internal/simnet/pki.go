// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a certificate authority that issues certificates for nodes.
type Authority struct {
	t      testing.TB
	key    *ecdsa.PrivateKey
	issuer *x509.Certificate
	// Path names a PEM file with its certificate, which is valid until Ends.
	Path string
	Ends time.Time
}

// NewAuthority returns an authority whose certificate is valid for ten years.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	now := time.Now()
	a := &Authority{t: t, key: newKey(t), Path: filepath.Join(t.TempDir(), "ca.pem")}
	a.issuer = &x509.Certificate{
		SerialNumber:          serial(t),
		Subject:               pkix.Name{CommonName: "authority of a test"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(10, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der := a.create(a.issuer, a.key)
	writePEM(t, a.Path, 0o644, "CERTIFICATE", der)
	var err error
	if a.issuer, err = x509.ParseCertificate(der); err != nil {
		t.Fatalf("ParseCertificate: %v", err)
	}
	a.Ends = a.issuer.NotAfter
	return a
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(math.MaxInt64))
	if err != nil {
		t.Fatalf("rand.Int: %v", err)
	}
	return n
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("GenerateKey: %v", err)
	}
	return key
}

func (a *Authority) create(template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.issuer, key.Public(), a.key)
	if err != nil {
		a.t.Fatalf("CreateCertificate: %v", err)
	}
	return der
}

// Pool returns a pool that contains only the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.issuer)
	return pool
}

// Issue issues a certificate for a host, an IP address, a URI or a DNS name. The certificate is
// valid for an hour, and for both client and server authentication. If edit is not nil, it changes
// the certificate before it is signed.
func (a *Authority) Issue(name string, edit func(*x509.Certificate)) *tls.Certificate {
	a.t.Helper()
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial(a.t),
		Subject:      pkix.Name{CommonName: "node of a test"},
		NotBefore:    now.Add(-time.Minute),
		NotAfter:     now.Add(time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	uri, err := url.Parse(name)
	switch ip := net.ParseIP(name); {
	case ip != nil:
		template.IPAddresses = []net.IP{ip}
	case err == nil && uri.Scheme != "":
		template.URIs = []*url.URL{uri}
	default:
		template.DNSNames = []string{name}
	}
	if edit != nil {
		edit(template)
	}
	key := newKey(a.t)
	der := a.create(template, key)
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatalf("ParseCertificate: %v", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// WritePair writes the leaf certificate of c and its key to two PEM files.
func WritePair(t testing.TB, c *tls.Certificate, certPath, keyPath string) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatalf("MarshalPKCS8PrivateKey: %v", err)
	}
	writePEM(t, certPath, 0o644, "CERTIFICATE", c.Certificate[0])
	writePEM(t, keyPath, 0o600, "PRIVATE KEY", key)
}

func writePEM(t testing.TB, path string, mode os.FileMode, kind string, der []byte) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, text, mode); err != nil {
		t.Fatal(err)
	}
}
