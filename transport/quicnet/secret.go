// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// MinSecretBytes is the minimum number of random bytes in a secret.
	MinSecretBytes = 32
	// minDifferentBytes is the minimum number of different values among the bytes of a secret. 32
	// random bytes have 30 different values on average, and fewer than 16 with a probability below
	// 10^-12.
	minDifferentBytes = MinSecretBytes / 2

	// maxSecrets is two: the old and the new secret while the secret is being changed.
	maxSecrets = 2

	// serverName is the name in every certificate. A holder of the secret may be any node, and its
	// greeting declares which node it is.
	serverName = "node.athena.internal"
	// These are the contexts of the derivations. A different context gives a different authority or
	// key.
	authorityInfo = "athena certificate authority 1\x00"
	resetInfo     = "athena reset key 1\x00"

	// A certificate is renewed after certificateAge. It becomes valid certificateSkew before it is
	// made, for peers whose clocks are behind.
	certificateAge  = 24 * time.Hour
	certificateSkew = 24 * time.Hour
	serialBits      = 127
)

// SecretTLS returns the TLS configuration of a node whose cluster shares a secret. Every node
// derives the key of the cluster's authority from the secret and the cluster name. With that key it
// signs its own certificate, which it keeps in memory and renews each day. It accepts only peers
// that know the secret and the name. Clocks may differ by a day. With two secrets, the node accepts
// holders of either, and holders of either accept the node. So to change the secret, give each node
// first (old, new), in any order, then (new). Each secret must pass CheckSecret.
func SecretTLS(secrets [][]byte, cluster string, now func() time.Time) (*tls.Config, error) {
	if len(secrets) == 0 || len(secrets) > maxSecrets {
		return nil, fmt.Errorf("quicnet: %d secrets given, want 1 to %d", len(secrets), maxSecrets)
	}
	trusted := Credentials{Authorities: x509.NewCertPool()}
	own := &issuer{now: now}
	for i, secret := range secrets {
		if err := CheckSecret(secret); err != nil {
			return nil, fmt.Errorf("quicnet: secret %d %w", i+1, err)
		}
		a, err := newAuthority(secret, cluster)
		if err != nil {
			return nil, fmt.Errorf("quicnet: derive certificate authority: %w", err)
		}
		trusted.Authorities.AddCert(a.certificate)
		own.authorities = append(own.authorities, a)
	}
	if _, err := own.certificate(); err != nil {
		return nil, err
	}
	config := newMutualTLS(now, own.certificate, func(chain []*x509.Certificate) error {
		return trusted.verifyAny(chain, now())
	})
	config.RootCAs, config.ServerName = trusted.Authorities, serverName
	return config, nil
}

// verifyAny checks that one of the certificates of a peer that has a secret was issued by one of
// Authorities. Only certificates for the key of the first count: the handshake proves that the peer
// has this key.
func (c Credentials) verifyAny(all []*x509.Certificate, at time.Time) (err error) {
	for i, one := range all[:min(len(all), maxSecrets)] {
		if !bytes.Equal(one.RawSubjectPublicKeyInfo, all[0].RawSubjectPublicKeyInfo) {
			break
		}
		_, wrong := c.Verify(all[i:i+1], at)
		if wrong == nil {
			return nil
		}
		err = cmp.Or(err, wrong)
	}
	return cmp.Or(err, errNoCertificate)
}

// CheckSecret returns an error unless a secret looks like the random output of a program: at least
// MinSecretBytes bytes, raw or in base64. It refuses other text, and bytes that repeat a few
// values. A node shows the certificate made from its secret to everyone who connects. An attacker
// could try passwords against that certificate offline, unnoticed and at full speed.
func CheckSecret(secret []byte) error {
	key := secret
	if isText(secret) {
		var err error
		key, err = base64.StdEncoding.DecodeString(string(secret))
		if err != nil || base64.StdEncoding.EncodeToString(key) != string(secret) {
			return errors.New("is text but not base64: such a password can be guessed")
		}
	}
	different := map[byte]bool{}
	for _, b := range key {
		different[b] = true
	}
	switch {
	case len(key) < MinSecretBytes:
		return fmt.Errorf("has at most %d random bytes, but a secret needs %d",
			len(key), MinSecretBytes)
	case len(different) < minDifferentBytes:
		return fmt.Errorf("has only %d different bytes: it is not random", len(different))
	}
	return nil
}

// isText reports whether a person may have typed a secret. The probability that
// MinSecretBytes random bytes look like text is below 10^-10.
func isText(secret []byte) bool {
	typed := func(r rune) bool { return unicode.IsPrint(r) || unicode.IsSpace(r) }
	return utf8.Valid(secret) && !bytes.ContainsFunc(secret, func(r rune) bool { return !typed(r) })
}

// InsecureTLS returns the TLS configuration of a node that trusts every peer. QUIC then
// encrypts, but does not authenticate. It is for tests on one machine.
func InsecureTLS(now func() time.Time) (*tls.Config, error) {
	secret := make([]byte, MinSecretBytes)
	_, _ = rand.Read(secret) // never fails
	a, err := newAuthority(secret, "")
	if err != nil {
		return nil, fmt.Errorf("quicnet: make certificate: %w", err)
	}
	config := newTLS(now, (&issuer{authorities: []*authority{a}, now: now}).certificate)
	config.InsecureSkipVerify = true
	return config, nil
}

func randomKey() (key [32]byte) {
	_, _ = rand.Read(key[:]) // never fails
	return key
}

// DeriveResetKey derives the Config.ResetKey of a node that cannot store one. It uses the secret of
// the cluster, which may be empty, and the address of the node. Anyone who knows the secret can end
// the nodes' connections with the key, but can do so as a member anyway.
func DeriveResetKey(secret []byte, addr string) (key [32]byte, err error) {
	b, err := hkdf.Key(sha256.New, secret, nil, resetInfo+addr, len(key))
	if err != nil {
		return key, fmt.Errorf("quicnet: derive reset key: %w", err)
	}
	return [32]byte(b), nil
}

// authority is the certificate authority that every node derives from the secret. The key of the
// authority is the same on all nodes, and so are all fields of its certificate that verification
// compares.
type authority struct {
	key         ed25519.PrivateKey
	certificate *x509.Certificate
}

func newAuthority(secret []byte, cluster string) (*authority, error) {
	seed, err := hkdf.Key(sha256.New, secret, nil, authorityInfo+cluster, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "athena cluster authority"},
		NotBefore:             time.Unix(0, 0),
		NotAfter:              time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{key, certificate}, nil
}

// sign issues a certificate for the key of a node.
func (a *authority) sign(key ed25519.PublicKey, now time.Time) (der []byte, err error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "athena node"},
		NotBefore:    now.Add(-certificateSkew),
		NotAfter:     now.Add(certificateAge + certificateSkew),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{serverName},
	}
	return x509.CreateCertificate(rand.Reader, template, a.certificate, key, a.key)
}

// issuer holds the certificates of this node, one by each authority for the same key. They are used
// only in handshakes, so a renewal does not affect connections.
type issuer struct {
	authorities []*authority
	now         func() time.Time

	mu    sync.Mutex
	leafs *tls.Certificate
	made  time.Time
}

// certificate returns certificates that are valid now, even if the clock was changed.
func (i *issuer) certificate() (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now().Round(0) // strip the monotonic reading, which does not follow changes of the clock
	if i.leafs != nil && now.Sub(i.made).Abs() < certificateAge {
		return i.leafs, nil
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("quicnet: make key: %w", err)
	}
	leafs := &tls.Certificate{PrivateKey: private}
	for _, a := range i.authorities {
		leaf, err := a.sign(public, now)
		if err != nil {
			return nil, fmt.Errorf("quicnet: make certificate: %w", err)
		}
		leafs.Certificate = append(leafs.Certificate, leaf)
	}
	i.leafs, i.made = leafs, now
	return leafs, nil
}
