// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/internal/simnet"
)

// secured is the TLS configuration of an admin API that a test may replace.
type secured struct {
	pki, clients *simnet.Authority
	current      atomic.Pointer[tls.Config]
}

func newSecured(t *testing.T) *secured {
	s := &secured{pki: simnet.NewAuthority(t), clients: simnet.NewAuthority(t)}
	s.current.Store(&tls.Config{
		Certificates: []tls.Certificate{*s.pki.Issue("127.0.0.1", nil)}, ClientCAs: s.clients.Pool(),
	})
	return s
}

// client returns a client with a certificate, or without one if it is nil.
func (s *secured) client(
	t *testing.T, at string, cert *tls.Certificate, opts ...adminclient.Option,
) *adminclient.Client {
	t.Helper()
	config := &tls.Config{RootCAs: s.pki.Pool()}
	if cert != nil { // sent even if the server accepts other authorities only
		config.GetClientCertificate =
			func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	c, err := adminclient.New(at, append(opts, adminclient.WithTLS(config))...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestClientCertificates checks which callers of an admin API with client certificates are
// accepted. The API listens on an address that other machines can reach.
func TestClientCertificates(t *testing.T) {
	s := newSecured(t)
	at := serve(t, "0.0.0.0:0", leading(t), admin.WithTLS(s.current.Load))
	_, port, _ := net.SplitHostPort(at)
	at = "127.0.0.1:" + port
	for _, c := range []struct {
		name string
		cert *tls.Certificate
		want string // "" if the caller is accepted
	}{
		{"accepted", s.clients.Issue("ops", nil), ""},
		{"none", nil, "client certificate of an accepted authority required"},
		{"of another authority", s.pki.Issue("ops", nil), "signed by unknown authority"},
		{"expired", s.clients.Issue("ops", func(c *x509.Certificate) {
			c.NotAfter = time.Now().Add(-time.Second)
		}), "has expired"},
		{"of a server", s.clients.Issue("ops", func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}), "incompatible key usage"},
	} {
		_, err := s.client(t, at, c.cert).Status(t.Context())
		var refused *adminclient.Error
		switch {
		case c.want == "" && err != nil:
			t.Errorf("certificate %s: %v", c.name, err)
		case c.want != "" && (!errors.As(err, &refused) || refused.Status != http.StatusUnauthorized ||
			!strings.Contains(refused.Text, c.want)):
			t.Errorf("certificate %s: %v, want 401 and %q", c.name, err, c.want)
		}
	}
	plain, err := adminclient.New(at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Status(t.Context()); !errors.Is(err, adminclient.ErrNeedsTLS) {
		t.Errorf("plain HTTP: %v, want %v", err, adminclient.ErrNeedsTLS)
	}
	other := &secured{pki: s.clients}
	_, err = other.client(t, at, nil).Status(t.Context())
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
		t.Errorf("a client that trusts another authority: %v, want a verification error", err)
	}
	unsecured := serve(t, "127.0.0.1:0", leading(t))
	_, err = s.client(t, unsecured, nil).Status(t.Context())
	if !errors.Is(err, adminclient.ErrNoTLS) {
		t.Errorf("TLS to a port without TLS: %v, want %v", err, adminclient.ErrNoTLS)
	}
}

// TestCertificateAndToken checks that a request needs both if both are configured, and that health
// checks need neither.
func TestCertificateAndToken(t *testing.T) {
	s := newSecured(t)
	text := strings.Repeat("t", 32)
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := admin.ReadToken(path)
	if err != nil {
		t.Fatal(err)
	}
	at := serve(t, "127.0.0.1:0", leading(t), admin.WithTLS(s.current.Load), admin.WithToken(token))
	withToken := adminclient.WithToken(func() string { return text })
	cert := s.clients.Issue("ops", nil)
	if _, err := s.client(t, at, cert, withToken).Status(t.Context()); err != nil {
		t.Errorf("with both: %v", err)
	}
	if _, err := s.client(t, at, cert).Status(t.Context()); err == nil {
		t.Error("without the token: accepted")
	}
	if _, err := s.client(t, at, nil, withToken).Status(t.Context()); err == nil {
		t.Error("without the certificate: accepted")
	}
	probe := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
		ForceAttemptHTTP2: true,
	}}
	resp, err := probe.Get("https://" + at + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 1 {
		t.Errorf("a health check: %s by %s, want 200 by HTTP/1.1", resp.Status, resp.Proto)
	}
}

// TestAuthorityRemoved checks that the removal of an authority ends the access of an open
// connection and of a resumed session, and that a configuration without authorities accepts no
// certificate.
func TestAuthorityRemoved(t *testing.T) {
	s := newSecured(t)
	at := serve(t, "127.0.0.1:0", leading(t), admin.WithTLS(s.current.Load))
	config := &tls.Config{RootCAs: s.pki.Pool()}
	config.Certificates = []tls.Certificate{*s.clients.Issue("ops", nil)}
	kept := &http.Transport{TLSClientConfig: config}
	defer kept.CloseIdleConnections()
	resuming := &http.Transport{TLSClientConfig: config.Clone(), DisableKeepAlives: true}
	resuming.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	resumed := false
	get := func() (code int) {
		t.Helper()
		for _, transport := range []*http.Transport{resuming, kept} {
			resp, err := (&http.Client{Transport: transport}).Get("https://" + at + "/v1/status")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if code != 0 && resp.StatusCode != code {
				t.Errorf("an open connection: %d, a new one: %d", resp.StatusCode, code)
			}
			code, resumed = resp.StatusCode, resumed || resp.TLS.DidResume
		}
		return code
	}
	if got := get(); got != http.StatusOK {
		t.Fatalf("before: %d, want 200", got)
	}
	for name, pool := range map[string]*x509.CertPool{"another": s.pki.Pool(), "none": nil} {
		next := s.current.Load().Clone()
		next.ClientCAs = pool
		s.current.Store(next)
		if got := get(); got != http.StatusUnauthorized {
			t.Errorf("with %s authority: %d, want 401", name, got)
		}
	}
	if !resumed {
		t.Error("no session was resumed")
	}
}

// TestSlowHandshake checks that a client that does not finish its handshake in time, or sends too
// much before its first request, is disconnected.
func TestSlowHandshake(t *testing.T) {
	s := newSecured(t)
	at := serve(t, "127.0.0.1:0", leading(t), admin.WithTLS(s.current.Load))
	dial := func() net.Conn {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	slow := dial()
	begun := time.Now()
	if _, err := slow.Write([]byte{22, 3, 1, 1, 0}); err != nil { // the head of a record
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, slow); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a silent handshake is open after %v", time.Since(begun))
	}
	large := s.clients.Issue("ops", func(c *x509.Certificate) {
		c.DNSNames = []string{strings.Repeat("x", 100<<10)}
	})
	c := tls.Client(dial(), &tls.Config{RootCAs: s.pki.Pool(), ServerName: "127.0.0.1",
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return large, nil
		}})
	err := c.HandshakeContext(context.WithoutCancel(t.Context()))
	if err == nil {
		_, err = io.Copy(io.Discard, c)
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a certificate of 100 KiB: %v, want the connection closed", err)
	}
}
