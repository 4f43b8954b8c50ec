// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"bytes"
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
	// MinSecretBytes is how many random bytes a secret has at least.
	MinSecretBytes = 32
	// minDifferentBytes is how many of them differ from each other at least. Of 32 random
	// bytes 30 do on average; fewer than 16 do once in more than 10^12 times.
	minDifferentBytes = MinSecretBytes / 2

	// serverName is in every certificate: whoever knows the secret may be any
	// node, and which one it is says its greet.
	serverName = "node.athena.internal"
	// The contexts of the derivations; another one gives another authority or key.
	authorityInfo = "athena certificate authority 1\x00"
	resetInfo     = "athena reset key 1\x00"

	// A certificate is good from certificateSkew before it was made, for peers
	// whose clocks are behind, and made anew after certificateAge.
	certificateAge  = 24 * time.Hour
	certificateSkew = 24 * time.Hour
	serialBits      = 127
)

// SecretTLS returns the TLS of a node whose cluster shares a secret. Every node
// derives the key of the cluster's authority from secret and cluster name, signs
// a certificate of its own with it, which it keeps in memory and renews each
// day, and accepts only peers that could do the same. Clocks may differ by a
// day. To change the secret, give each node first (old, new), then (new, old),
// then (new): the first signs, all verify. Each must pass CheckSecret.
func SecretTLS(secrets [][]byte, cluster string, now func() time.Time) (*tls.Config, error) {
	if len(secrets) == 0 {
		return nil, errors.New("quicnet: no secret given")
	}
	pool := x509.NewCertPool()
	var signer *authority
	for i, secret := range secrets {
		if err := CheckSecret(secret); err != nil {
			return nil, fmt.Errorf("quicnet: secret %d %w", i+1, err)
		}
		a, err := newAuthority(secret, cluster)
		if err != nil {
			return nil, fmt.Errorf("quicnet: derive certificate authority: %w", err)
		}
		pool.AddCert(a.certificate)
		if signer == nil {
			signer = a
		}
	}
	own := &issuer{authority: signer, now: now}
	if _, err := own.certificate(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		Time:       now,
		RootCAs:    pool,
		ClientCAs:  pool,
		ClientAuth: tls.RequireAndVerifyClientCert,
		ServerName: serverName,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return own.certificate()
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return own.certificate()
		},
	}, nil
}

// CheckSecret returns why a secret is not one that a program made at random: MinSecretBytes
// or more random bytes, as they are or in base64. All who reach a node see the
// certificate that it made from the secret, and can try passwords on it elsewhere, without
// being noticed or slowed down. So text that is not base64 is refused, and what repeats a
// few bytes.
func CheckSecret(secret []byte) error {
	key := secret
	if isText(secret) {
		var err error
		key, err = base64.StdEncoding.DecodeString(string(secret))
		if err != nil || base64.StdEncoding.EncodeToString(key) != string(secret) {
			return errors.New("is text and not base64: a password, which can be found by trying")
		}
	}
	different := map[byte]bool{}
	for _, b := range key {
		different[b] = true
	}
	switch {
	case len(key) < MinSecretBytes:
		return fmt.Errorf("holds %d random bytes at most, and a secret at least %d",
			len(key), MinSecretBytes)
	case len(different) < minDifferentBytes:
		return fmt.Errorf("repeats %d different bytes: it is not random", len(different))
	}
	return nil
}

// isText reports whether a secret is something that a person can have typed. One of
// MinSecretBytes random bytes is once in more than 10^10 times.
func isText(secret []byte) bool {
	typed := func(r rune) bool { return unicode.IsPrint(r) || unicode.IsSpace(r) }
	return utf8.Valid(secret) && !bytes.ContainsFunc(secret, func(r rune) bool { return !typed(r) })
}

// InsecureTLS returns the TLS of a node that trusts whoever reaches it. QUIC
// encrypts all the same, but nobody knows with whom. For tests on one machine.
func InsecureTLS(now func() time.Time) (*tls.Config, error) {
	secret := make([]byte, MinSecretBytes)
	_, _ = rand.Read(secret) // it never fails
	a, err := newAuthority(secret, "")
	if err != nil {
		return nil, fmt.Errorf("quicnet: make certificate: %w", err)
	}
	own := &issuer{authority: a, now: now}
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		Time:               now,
		InsecureSkipVerify: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return own.certificate()
		},
	}, nil
}

func randomKey() (key [32]byte) {
	_, _ = rand.Read(key[:]) // it never fails
	return key
}

// DeriveResetKey makes the Config.ResetKey of a node that has nowhere to keep
// one, from the secret of its cluster, which may be empty, and its address.
// Whoever knows the secret can end the connections of its nodes with it. That
// is no more than they can do as members.
func DeriveResetKey(secret []byte, addr string) (key [32]byte, err error) {
	b, err := hkdf.Key(sha256.New, secret, nil, resetInfo+addr, len(key))
	if err != nil {
		return key, fmt.Errorf("quicnet: derive reset key: %w", err)
	}
	return [32]byte(b), nil
}

// authority is what every holder of a secret can make, each for itself: the
// key, and a certificate of it that differs in nothing that verification sees.
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

// sign makes a certificate for a new key.
func (a *authority) sign(now time.Time) (*tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
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
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, public, a.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, nil
}

// issuer keeps the certificate of this node. Only handshakes look at it, so a
// new one disturbs no connection.
type issuer struct {
	authority *authority
	now       func() time.Time

	mu   sync.Mutex
	leaf *tls.Certificate
	made time.Time
}

// certificate returns one that is good now, also after the clock was set.
func (i *issuer) certificate() (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now().Round(0) // without the monotonic clock, which is never set
	if i.leaf != nil && now.Sub(i.made).Abs() < certificateAge {
		return i.leaf, nil
	}
	leaf, err := i.authority.sign(now)
	if err != nil {
		return nil, fmt.Errorf("quicnet: make certificate: %w", err)
	}
	i.leaf, i.made = leaf, now
	return leaf, nil
}
