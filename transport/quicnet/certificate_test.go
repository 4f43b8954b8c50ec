// SPDX-License-Identifier: Apache-2.0

package quicnet

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/transport"
)

// named gives a node a certificate and an authority that it trusts.
func named(a *simnet.Authority, certificate *tls.Certificate) func(*Config) {
	return func(c *Config) {
		have := Credentials{Certificate: certificate, Authorities: a.Pool()}
		c.TLS, c.Named = CertificateTLS(func() Credentials { return have }, time.Now), true
	}
}

func TestNodesWithCertificatesConnect(t *testing.T) {
	for _, name := range []string{addrB.Host, "athena:///test/" + addrB.String(),
		"athena:///test/[::ffff:10.0.0.2]:7000"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			pki := simnet.NewAuthority(t)
			a := w.join(t, addrA, 1, named(pki, pki.Issue(addrA.Host, nil)))
			b := w.join(t, addrB, 1, named(pki, pki.Issue(name, nil)))
			a.Notify(addrB, []byte("forth"))
			next(t, b.frames[transport.System], "frame")
			b.Notify(addrA, []byte("back"))
			next(t, a.frames[transport.System], "frame")
		})
	}
}

// TestCertificatesThatNobodyAccepts checks certificates that every node refuses, no matter
// which one dials.
func TestCertificatesThatNobodyAccepts(t *testing.T) {
	only := func(usage x509.ExtKeyUsage) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{usage} }
	}
	for _, c := range []struct {
		name string
		edit func(*x509.Certificate)
		from bool   // another authority
		want string // reason reported by the node that refuses
	}{
		{name: "another authority", from: true, want: "is from another authority"},
		{name: "expired",
			want: "is valid only from 1999-12-31T23:59:00Z to 1999-12-31T23:59:59Z:",
			edit: func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) }},
		{name: "not yet good", want: "is valid only from 2000-01-01T01:00:00Z to",
			edit: func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }},
		{name: "for dialers", edit: only(x509.ExtKeyUsageClientAuth), want: "key usage"},
		{name: "for the dialed", edit: only(x509.ExtKeyUsageServerAuth), want: "key usage"},
		{name: "without a usage", want: "extendedKeyUsage",
			edit: func(c *x509.Certificate) { c.ExtKeyUsage = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				pki := simnet.NewAuthority(t)
				from := pki
				if c.from {
					from = simnet.NewAuthority(t)
				}
				a := w.join(t, addrA, 1, named(pki, pki.Issue(addrA.Host, nil)))
				b := w.join(t, addrB, 1, named(pki, from.Issue(addrB.Host, c.edit)))
				a.Notify(addrB, []byte("let me in"))
				err := a.nextReport(t, mesh.ReportUnreachable)
				checkRefusal(t, "the dialer", err, c.want)
				err = b.nextReport(t, mesh.ReportHandshake)
				checkRefusal(t, "the dialed", err, "the other node refused the certificate of this one")
				b.Notify(addrA, []byte("come in"))
				err = a.nextReport(t, mesh.ReportHandshake)
				checkRefusal(t, "the dialed", err, c.want)
				checkApart(t, a, b)
			})
		})
	}
}

// TestInvalidIsTheSameEachTime checks that the text of the error is always the same, because logs
// drop repeated lines.
func TestInvalidIsTheSameEachTime(t *testing.T) {
	c := &x509.Certificate{NotBefore: time.Unix(0, 0), NotAfter: time.Unix(60, 0)}
	for _, p := range []struct {
		authority bool
		reason    x509.InvalidReason
		want      string
	}{
		{false, x509.Expired,
			"the certificate of the other node is valid only from 1970-01-01T00:00:00Z to " +
				"1970-01-01T00:01:00Z:"},
		{true, x509.Expired, "an authority of the certificate of the other node is valid only from 1970"},
		{false, x509.IncompatibleUsage,
			"the certificate of the other node: x509: certificate specifies an incompatible key usage"},
	} {
		c.IsCA = p.authority
		got := describeInvalid(x509.CertificateInvalidError{
			Cert: c, Reason: p.reason, Detail: "current time " + time.Now().String(),
		})
		if !strings.HasPrefix(got, p.want) || strings.Contains(got, "current time") {
			t.Errorf("%v, authority %v: got %q, want %q", p.reason, p.authority, got, p.want)
		}
	}
}

func checkRefusal(t *testing.T, who string, err error, want string) {
	t.Helper()
	if !errors.Is(err, transport.ErrCertificate) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want ErrCertificate and %q in it", who, err, want)
	}
}

// checkApart checks that no frame passed between two nodes, and that a has counted the
// refusal of a certificate.
func checkApart(t *testing.T, a, b *node) {
	t.Helper()
	time.Sleep(3 * time.Second)
	for _, n := range []*node{a, b} {
		if got := n.Stats(); got.Connections != 0 || len(n.frames[transport.System]) != 0 {
			t.Errorf("%v: %d connections, %d frames; want none",
				n.self.Address, got.Connections, len(n.frames[transport.System]))
		}
	}
	if got := a.Stats().Handshakes; got[mesh.ResultCertificate.String()] == 0 {
		t.Errorf("handshakes %v, want a certificate refused", got)
	}
}

// TestNoCertificate checks that a dialer without a certificate is refused. It may briefly consider
// itself connected.
func TestNoCertificate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		pki := simnet.NewAuthority(t)
		b := w.join(t, addrB, 1, named(pki, pki.Issue(addrB.Host, nil)))
		a := w.join(t, addrA, 1, func(c *Config) {
			c.TLS = &tls.Config{InsecureSkipVerify: true,
				GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
					return pki.Issue(addrA.Host, nil), nil
				}}
		})
		a.Notify(addrB, []byte("let me in"))
		err := b.nextReport(t, mesh.ReportHandshake)
		checkRefusal(t, "the dialed", err, "didn't provide a certificate")
		checkApart(t, b, a)
	})
}

// TestCertificateOfAnotherMember greets from an address that the certificate does not name.
// Whichever node dials, the connection is refused, and both nodes report and count it.
func TestCertificateOfAnotherMember(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"10.0.0.9", "it is for 10.0.0.9, not for 10.0.0.2:7000"},
		{"n2.example", "it is for n2.example, not for 10.0.0.2:7000"},
		{"athena:///test/10.0.0.2:7001", "it is for athena:///test/10.0.0.2:7001, not"},
		{"athena:///other/10.0.0.2:7000", "it is for athena:///other/10.0.0.2:7000, not"},
	} {
		for _, dials := range []string{"the impostor dials", "it is dialed"} {
			t.Run(c.name+" "+dials, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					pki := simnet.NewAuthority(t)
					a := w.join(t, addrA, 1, named(pki, pki.Issue(addrA.Host, nil)))
					b := w.join(t, addrB, 1, named(pki, pki.Issue(c.name, nil)))
					if dials == "it is dialed" {
						a.Notify(addrB, []byte("who is there"))
					} else {
						b.Notify(addrA, []byte("I am b"))
					}
					refused, what := mesh.ReportHandshake, mesh.ReportRefusedByPeer
					result := mesh.ResultRefusedByPeer
					if dials == "it is dialed" {
						refused, what = mesh.ReportRefused, mesh.ReportHandshake
						result = mesh.ResultCertificate
					}
					checkRefusal(t, "a", a.nextReport(t, refused), c.want)
					if err := b.nextReport(t, what); err == nil || !strings.Contains(err.Error(), c.want) {
						t.Errorf("b learns %v, want %q in it", err, c.want)
					}
					checkApart(t, a, b)
					if got := b.Stats().Handshakes[result.String()]; got == 0 {
						t.Errorf("b counted %v, want %v", b.Stats().Handshakes, result)
					}
				})
			})
		}
	}
}

// TestANewCertificateEndsNoConnection checks that a new certificate is used only from the
// next handshake on.
func TestANewCertificateEndsNoConnection(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		pki := simnet.NewAuthority(t)
		have := Credentials{Certificate: pki.Issue(addrA.Host, nil), Authorities: pki.Pool()}
		a := w.join(t, addrA, 1, func(c *Config) {
			c.TLS, c.Named = CertificateTLS(func() Credentials { return have }, time.Now), true
		})
		b := w.join(t, addrB, 1, named(pki, pki.Issue(addrB.Host, nil)))
		a.Notify(addrB, []byte("hello"))
		next(t, b.frames[transport.System], "frame")
		// This is a certificate of another node, so the next handshake would fail.
		have.Certificate = pki.Issue("10.0.0.9", nil)
		for i := range 10 {
			a.Notify(addrB, []byte(fmt.Sprint(i)))
			next(t, b.frames[transport.System], "frame")
		}
		if got := a.Stats(); got.Dials != 1 || got.Connections != 1 {
			t.Errorf("%d dials, %d connections; want one of each", got.Dials, got.Connections)
		}
		c := w.join(t, member.Address{Host: "10.0.0.3", Port: 7000}, 1,
			named(pki, pki.Issue("10.0.0.3", nil)))
		c.Notify(addrA, []byte("hello"))
		checkRefusal(t, "c", c.nextReport(t, mesh.ReportRefused), "it is for 10.0.0.9")
	})
}

// TestConnectionsEndWithTheCertificate checks that a connection does not outlive the peer's
// certificate, and that nothing is lost if the peer has renewed it in time.
func TestConnectionsEndWithTheCertificate(t *testing.T) {
	for _, renewed := range []bool{true, false} {
		t.Run(fmt.Sprint("renewed ", renewed), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) { testCertificateEnds(t, w, renewed) })
		})
	}
}

func testCertificateEnds(t *testing.T, w *world, renewed bool) {
	const life = 10 * time.Minute
	pki := simnet.NewAuthority(t)
	ends := time.Now().Add(life)
	have := Credentials{
		Certificate: pki.Issue(addrA.Host, func(c *x509.Certificate) { c.NotAfter = ends }),
		Authorities: pki.Pool(),
	}
	a := w.join(t, addrA, 1, func(c *Config) {
		c.TLS, c.Named = CertificateTLS(func() Credentials { return have }, time.Now), true
	})
	b := w.join(t, addrB, 1, named(pki, pki.Issue(addrB.Host, nil)))
	sent := 0
	beat := func(until time.Time) {
		for ; time.Now().Before(until); sent++ {
			if err := a.Send(t.Context(), addrB, fmt.Append(nil, sent)); err != nil {
				t.Fatalf("Send %d: %v", sent, err)
			}
			if got := next(t, b.frames[transport.Custom], "frame"); string(got) != fmt.Sprint(sent) {
				t.Fatalf("got frame %s, want %d", got, sent)
			}
			time.Sleep(time.Second)
		}
	}
	beat(ends.Add(-2 * time.Minute))
	if got := a.Stats(); got.Dials != 1 {
		t.Errorf("%d dials long before the certificate ends, want 1", got.Dials)
	}
	if renewed {
		have.Certificate = pki.Issue(addrA.Host, nil)
		beat(ends.Add(10 * time.Minute))
		if got := a.Stats(); got.Connections != 1 || len(b.lost) > 0 {
			t.Errorf("%d connections, %d losses; want 1 and none", got.Connections, len(b.lost))
		}
		return
	}
	beat(ends.Add(-time.Second))
	time.Sleep(2 * time.Second)
	if got := a.Stats().Connections + b.Stats().Connections; got != 0 {
		t.Errorf("%d connections after the certificate ended, want none", got)
	}
	err := b.nextReport(t, mesh.ReportLost)
	if err == nil || !strings.Contains(err.Error(), "the certificate of the peer has expired") {
		t.Errorf("got the report %v, want that the certificate has expired", err)
	}
	a.Notify(addrB, []byte("still there"))
	checkRefusal(t, "the dialed", b.nextReport(t, mesh.ReportHandshake), "is valid only from")
}

// TestSVID checks that only the SVID of the configured ID is accepted, and only of the authority.
func TestSVID(t *testing.T) {
	const id = "spiffe://example.org/athena"
	pki, other := simnet.NewAuthority(t), simnet.NewAuthority(t)
	uri := func(text string) *url.URL {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	as := func(text string) func(*x509.Certificate) {
		return func(x *x509.Certificate) { x.URIs[0] = uri(text) }
	}
	and := func(text string) func(*x509.Certificate) {
		return func(x *x509.Certificate) { x.URIs = append(x.URIs, uri(text)) }
	}
	for name, c := range map[string]struct {
		by   *simnet.Authority
		edit func(x *x509.Certificate)
		ok   bool
	}{
		"the ID":       {pki, nil, true},
		"and a host":   {pki, func(x *x509.Certificate) { x.DNSNames = []string{"n1"} }, true},
		"authority":    {other, nil, false},
		"two URIs":     {pki, and(id + "2"), false},
		"twice":        {pki, and(id), false},
		"other domain": {pki, as("spiffe://example.com/athena"), false},
		"other path":   {pki, as(id + "/admin"), false},
		"user":         {pki, as("spiffe://u@example.org/athena"), false},
		"query":        {pki, as(id + "?a"), false},
		"escaped":      {pki, as("spiffe://example.org/%61thena"), false},
		"host alone": {pki, func(x *x509.Certificate) {
			x.URIs, x.DNSNames = nil, []string{"example.org"}
		}, false},
		"a CA": {pki, func(x *x509.Certificate) {
			x.IsCA, x.BasicConstraintsValid = true, true
		}, false},
		"signs":      {pki, func(x *x509.Certificate) { x.KeyUsage |= x509.KeyUsageCertSign }, false},
		"signs CRLs": {pki, func(x *x509.Certificate) { x.KeyUsage |= x509.KeyUsageCRLSign }, false},
		"does not sign": {pki, func(x *x509.Certificate) {
			x.KeyUsage = x509.KeyUsageKeyEncipherment
		}, false},
		"for servers": {pki, func(x *x509.Certificate) {
			x.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}, false},
	} {
		leaf := c.by.Issue(id, c.edit).Leaf
		current := Credentials{Authorities: pki.Pool(), SPIFFE: id}
		_, err := current.Verify([]*x509.Certificate{leaf}, time.Now())
		if (err == nil) != c.ok {
			t.Errorf("%s: got %v, want accepted: %v", name, err, c.ok)
		}
	}
}
