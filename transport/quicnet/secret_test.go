// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// handshake performs a handshake between two nodes and returns the error of each.
func handshake(t *testing.T, client, server *tls.Config) (clientErr, serverErr error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer listener.Close()
	done := make(chan error)
	go func() {
		accepted, err := listener.Accept()
		if err == nil {
			err = tls.Server(accepted, server).Handshake()
			_ = accepted.Close()
		}
		done <- err
	}()
	dialed, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	c := tls.Client(dialed, client)
	if clientErr = c.Handshake(); clientErr == nil {
		// The client learns only after the handshake whether the server accepts its
		// certificate.
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			clientErr = err
		}
	}
	_ = dialed.Close()
	return clientErr, <-done
}

// fit reports whether two nodes accept each other, whichever of them dials.
func fit(t *testing.T, x, y *tls.Config) bool {
	t.Helper()
	_, forth := handshake(t, x, y)
	_, back := handshake(t, y, x)
	if (forth == nil) != (back == nil) {
		t.Errorf("it depends on who dials: %v, %v", forth, back)
	}
	return forth == nil && back == nil
}

func fixed(at time.Time) func() time.Time { return func() time.Time { return at } }

var today = time.Date(2026, time.August, 1, 0, 0, 0, 0, time.UTC)

func mustSecretTLS(
	t *testing.T, cluster string, now func() time.Time, secrets ...string,
) *tls.Config {
	t.Helper()
	var all [][]byte
	for _, s := range secrets {
		all = append(all, []byte(s))
	}
	c, err := SecretTLS(all, cluster, now)
	if err != nil {
		t.Fatalf("SecretTLS: %v", err)
	}
	return c
}

func TestSecretDecides(t *testing.T) {
	const before, after = secret, otherSecret
	now := fixed(today)
	node := mustSecretTLS(t, "c", now, before)
	tests := []struct {
		name  string
		other *tls.Config
		want  bool
	}{
		{"same secret", mustSecretTLS(t, "c", now, before), true},
		{"other secret", mustSecretTLS(t, "c", now, after), false},
		{"other cluster", mustSecretTLS(t, "d", now, before), false},
		{"both, the same one signs", mustSecretTLS(t, "c", now, before, after), true},
		{"both, in the other order", mustSecretTLS(t, "c", now, after, before), true},
	}
	for _, test := range tests {
		if got := fit(t, node, test.other); got != test.want {
			t.Errorf("%s: fit %v, want %v", test.name, got, test.want)
		}
	}
}

// TestSecretsRotate follows the steps that SecretTLS documents, one node after the other:
// nodes of adjacent steps accept each other, whichever secret is named first.
func TestSecretsRotate(t *testing.T) {
	const before, after = secret, otherSecret
	now := fixed(today)
	for _, both := range [][]string{{before, after}, {after, before}} {
		steps := []*tls.Config{
			mustSecretTLS(t, "c", now, before),
			mustSecretTLS(t, "c", now, both...),
			mustSecretTLS(t, "c", now, after),
		}
		for i, step := range steps[1:] {
			if !fit(t, steps[i], step) {
				t.Errorf("with %.4q: a node of step %d does not fit to one of step %d", both, i, i+1)
			}
		}
		if fit(t, steps[0], steps[2]) {
			t.Errorf("with %.4q: a node with the removed secret is accepted", both)
		}
	}
}

// TestCertificateOfAnotherKey checks that a node refuses a peer that presents a certificate of a
// member behind its own: the peer does not have the key of that certificate.
func TestCertificateOfAnotherKey(t *testing.T) {
	now := fixed(today)
	node := mustSecretTLS(t, "c", now, secret)
	member, err := mustSecretTLS(t, "c", now, secret, otherSecret).GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, stolen := range member.Certificate {
		thief := mustSecretTLS(t, "c", now, otherSecret)
		own, err := thief.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		shown := &tls.Certificate{
			Certificate: [][]byte{own.Certificate[0], stolen}, PrivateKey: own.PrivateKey,
		}
		thief.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return shown, nil }
		thief.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return shown, nil
		}
		if fit(t, node, thief) {
			t.Error("a certificate of another key is accepted")
		}
	}
}

func TestSecretsAreChecked(t *testing.T) {
	for name, secrets := range map[string][][]byte{
		"none":         nil,
		"short":        {[]byte(secret)[1:]},
		"second short": {[]byte(secret), nil},
		"three":        {[]byte(secret), []byte(secret), []byte(secret)},
	} {
		_, err := SecretTLS(secrets, "c", time.Now)
		if err == nil || !strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want an error about the secret", name, err)
		}
	}
}

// TestPasswordsAreRefused checks secrets that people choose, and output of programs that do
// not generate secrets. An attacker could find them from one handshake.
func TestPasswordsAreRefused(t *testing.T) {
	for _, weak := range []string{
		"passwordpassword", "password", strings.Repeat("password", 8), strings.Repeat("s", 44),
		"0123456789abcdef0123456789abcdef", strings.Repeat("0123456789abcdef", 4),
		"correct horse battery staple, and so on and so on", "Orders-Production-2026!!!!!!!!!!",
		"the secret of every test cluster", "пароль пароль пароль пароль пароль",
		secret[:40], secret + "\n", secret + "\r\n", " " + secret, secret[:43], secret[:42] + "h=",
		string(make([]byte, 64)), strings.Repeat("\x00\xff", 40), secret + secret, "",
	} {
		if err := CheckSecret([]byte(weak)); err == nil {
			t.Errorf("%q is accepted", weak)
		}
	}
}

// TestRandomSecretsAreAccepted checks the output formats of programs that generate secrets.
func TestRandomSecretsAreAccepted(t *testing.T) {
	for range 10_000 {
		key := randomKey()
		for _, made := range [][]byte{
			key[:], []byte(base64.StdEncoding.EncodeToString(key[:])), []byte(hex.EncodeToString(key[:])),
		} {
			if err := CheckSecret(made); err != nil {
				t.Fatalf("%q: %v", made, err)
			}
		}
	}
}

func TestClocksMayDiffer(t *testing.T) {
	node := mustSecretTLS(t, "c", fixed(today), secret)
	for skew, want := range map[time.Duration]bool{
		0:                              true,
		certificateSkew - time.Minute:  true,
		-certificateSkew + time.Minute: true,
		7 * 24 * time.Hour:             false,
		-7 * 24 * time.Hour:            false,
	} {
		other := mustSecretTLS(t, "c", fixed(today.Add(skew)), secret)
		if got := fit(t, node, other); got != want {
			t.Errorf("clocks %v apart: fit %v, want %v", skew, got, want)
		}
	}
}

// TestCertificateIsRenewed lets time pass, and sets the clock back, while the nodes keep
// running.
func TestCertificateIsRenewed(t *testing.T) {
	now := today
	clock := func() time.Time { return now }
	a, b := mustSecretTLS(t, "c", clock, secret), mustSecretTLS(t, "c", clock, secret)
	leaf := func() []byte {
		c, err := a.GetCertificate(nil)
		if err != nil {
			t.Fatalf("GetCertificate: %v", err)
		}
		return c.Certificate[0]
	}
	first := leaf()
	now = now.Add(certificateAge - time.Minute)
	if !bytes.Equal(leaf(), first) {
		t.Error("the certificate is replaced within its age")
	}
	for _, step := range []time.Duration{time.Hour, 90 * 24 * time.Hour, -365 * 24 * time.Hour} {
		now = now.Add(step)
		if bytes.Equal(leaf(), first) {
			t.Errorf("the same certificate after %v", step)
		}
		if !fit(t, a, b) {
			t.Errorf("nodes do not fit together after %v", step)
		}
	}
}

func TestInsecureNodesRefuseSecureOnes(t *testing.T) {
	insecure, err := InsecureTLS(fixed(today))
	if err != nil {
		t.Fatalf("InsecureTLS: %v", err)
	}
	other, err := InsecureTLS(fixed(today))
	if err != nil {
		t.Fatalf("InsecureTLS: %v", err)
	}
	if !fit(t, insecure, other) {
		t.Error("insecure nodes do not fit together")
	}
	secure := mustSecretTLS(t, "c", fixed(today), secret)
	if _, err := handshake(t, insecure, secure); err == nil {
		t.Error("a secure node accepts an insecure one")
	}
	if err, _ := handshake(t, secure, insecure); err == nil {
		t.Error("a secure node dials an insecure one")
	}
}

func TestDeriveResetKey(t *testing.T) {
	key := func(secret, addr string) [32]byte {
		k, err := DeriveResetKey([]byte(secret), addr)
		if err != nil {
			t.Fatalf("DeriveResetKey(%q, %q): %v", secret, addr, err)
		}
		return k
	}
	first := key("0123456789abcdef", "a:1")
	if first == [32]byte{} || first != key("0123456789abcdef", "a:1") {
		t.Errorf("got %x, want a key, and the same at the next start", first)
	}
	for _, other := range [][2]string{
		{"0123456789abcdef", "a:2"}, {"0123456789abcdeg", "a:1"}, {"", "a:1"},
	} {
		if key(other[0], other[1]) == first {
			t.Errorf("%q gives the key of another secret or address", other)
		}
	}
}
