// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/internal/tlsfiles"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/quicnet"
)

// pkiConfig is like quicConfig, but with certificates instead of a secret.
func pkiConfig(t *testing.T, i int, pki *simnet.Authority) Config {
	t.Helper()
	c := quicConfig(i, "")
	dir := t.TempDir()
	c.Secret = nil
	c.TLSCA, c.TLSCert, c.TLSKey = pki.Path, filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	host, _, _ := strings.Cut(c.Addr, ":")
	simnet.WritePair(t, pki.Issue(host, nil), c.TLSCert, c.TLSKey)
	return c
}

func TestValidateReadsCertificates(t *testing.T) {
	pki, other := simnet.NewAuthority(t), simnet.NewAuthority(t)
	encrypted := "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
	issue := func(c *Config, name string, edit func(*x509.Certificate)) {
		simnet.WritePair(t, pki.Issue(name, edit), c.TLSCert, c.TLSKey)
	}
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []struct {
		name  string
		plant func(c *Config)
		want  string
	}{
		{"sound", func(*Config) {}, ""},
		{"for this member alone", func(c *Config) {
			issue(c, "athena:///athena/10.0.0.1:7000", nil)
		}, ""},
		{"beside a secret", func(c *Config) { c.Secret = testSecret }, "Secret contradicts TLSCert"},
		{"insecure", func(c *Config) { c.Insecure = true }, "Insecure true: contradicts TLSCert"},
		{"no CA", func(c *Config) { c.TLSCA = "" }, "TLSCA is missing"},
		{"no certificate", func(c *Config) { c.TLSCert = "" }, "TLSCert is missing"},
		{"no key", func(c *Config) { c.TLSKey = "" }, "TLSKey is missing"},
		{"no such file", func(c *Config) { c.TLSCert += "x" }, "TLSCert: open "},
		{"a folder", func(c *Config) { c.TLSCA = filepath.Dir(c.TLSCA) }, "not a regular file"},
		{"open to others", func(c *Config) {
			if err := os.Chmod(c.TLSKey, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "chmod 600"},
		{"exchanged", func(c *Config) { c.TLSCA = c.TLSKey },
			`contains "PRIVATE KEY" instead of a certificate`},
		{"no PEM", func(c *Config) { write(c.TLSCert, "certificate") }, "contains no PEM certificate"},
		{"broken", func(c *Config) {
			write(c.TLSCert, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
		}, "certificate 1 of the file"},
		{"no key in PEM", func(c *Config) { write(c.TLSKey, "key") }, "contains no PEM private key"},
		{"encrypted", func(c *Config) { write(c.TLSKey, encrypted) }, "openssl pkey"},
		{"key of another", func(c *Config) {
			simnet.WritePair(t, pki.Issue("10.0.0.1", nil), c.TLSCert+"2", c.TLSKey)
		}, "does not match TLSCert"},
		{"expired", func(c *Config) {
			issue(c, "10.0.0.1", func(x *x509.Certificate) { x.NotAfter = time.Now().Add(-time.Second) })
		}, "expired at 20"},
		{"not yet", func(c *Config) {
			issue(c, "10.0.0.1", func(x *x509.Certificate) { x.NotBefore = time.Now().Add(time.Minute) })
		}, "not valid before 20"},
		{"of another authority", func(c *Config) { c.TLSCA = other.Path }, "would accept it"},
		{"for dialers", func(c *Config) {
			issue(c, "10.0.0.1", func(x *x509.Certificate) { x.ExtKeyUsage = x.ExtKeyUsage[1:] })
		}, "incompatible key usage"},
		{"for another host", func(c *Config) { issue(c, "10.0.0.2", nil) },
			"it is for 10.0.0.2, not for 10.0.0.1:7000"},
		{"for another cluster", func(c *Config) { issue(c, "athena:///b/10.0.0.1:7000", nil) },
			"it is for athena:///b/10.0.0.1:7000, not for"},
	} {
		c := pkiConfig(t, 1, pki)
		p.plant(&c)
		configCase{p.name, c, p.want}.check(t)
	}
}

// TestDamagedFiles checks that damaged content is not ignored as if it were a comment. Otherwise
// the second of two CA certificates could be missing without an error.
func TestDamagedFiles(t *testing.T) {
	pki, other := simnet.NewAuthority(t), simnet.NewAuthority(t)
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first, second := read(pki.Path), read(other.Path)
	for _, p := range []struct {
		name   string
		damage func(c Config) (path, text string)
		want   string
	}{
		{"certificate cut off", func(c Config) (string, string) {
			return c.TLSCert, strings.TrimSuffix(read(c.TLSCert), "-----\n")
		}, "cannot read 1 of 1 PEM blocks"},
		{"key cut off", func(c Config) (string, string) {
			return c.TLSKey, read(c.TLSKey)[:100]
		}, "cannot read 1 of 1 PEM blocks"},
		{"second authority cut off", func(c Config) (string, string) {
			return c.TLSCA, first + second[:200]
		}, "cannot read 1 of 2 PEM blocks"},
		{"second authority indented", func(c Config) (string, string) {
			return c.TLSCA, first + "  " + strings.ReplaceAll(second, "\n", "\n  ")
		}, "cannot read 1 of 2 PEM blocks"},
		{"first authority behind the mark of an editor", func(c Config) (string, string) {
			return c.TLSCA, "\ufeff" + second + first
		}, "cannot read 1 of 2 PEM blocks"},
		{"words between", func(c Config) (string, string) {
			return c.TLSCA, "old, was # -----BEGIN\n" + first + "\nnew\n" + second
		}, ""},
	} {
		c := pkiConfig(t, 1, pki)
		c.TLSCA = filepath.Join(t.TempDir(), "ca")
		if err := os.WriteFile(c.TLSCA, []byte(first), 0o600); err != nil {
			t.Fatal(err)
		}
		path, text := p.damage(c)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		configCase{p.name, c, p.want}.check(t)
	}
}

// TestCertificatesAreRenewed checks that renewed certificates are loaded, and that an invalid one
// is reported once and not used.
func TestCertificatesAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pki := simnet.NewAuthority(t)
		c := pkiConfig(t, 1, pki)
		s, err := c.parse()
		if err != nil {
			t.Fatal(err)
		}
		log := newBook(t)
		r, err := openCertificates(s, logTo(zerolog.New(log)))
		if err != nil {
			t.Fatal(err)
		}
		serial := func() string { return r.Current().Certificate.Leaf.SerialNumber.String() }
		first := serial()
		later := func(x *x509.Certificate) { x.NotAfter = x.NotAfter.Add(time.Hour) }
		next := pki.Issue("10.0.0.1", later)
		simnet.WritePair(t, next, c.TLSCert, c.TLSKey)
		if got := serial(); got != first {
			t.Error("the files were read again within a second")
		}
		time.Sleep(tlsfiles.ReadInterval)
		if got := serial(); got != next.Leaf.SerialNumber.String() {
			t.Errorf("certificate %s is used, want the new one %v", got, next.Leaf.SerialNumber)
		}
		if got := r.Expires(); !got.Equal(next.Leaf.NotAfter) {
			t.Errorf("it ends at %v, want %v", got, next.Leaf.NotAfter)
		}
		log.wants("TLS files have changed: new handshakes use them", 1)
		for i, bad := range []func(){
			func() { simnet.WritePair(t, pki.Issue("10.0.0.1", nil), c.TLSCert, c.TLSKey+"2") },
			func() { simnet.WritePair(t, pki.Issue("10.0.0.2", nil), c.TLSCert, c.TLSKey) },
			func() { _ = os.Remove(c.TLSCert) },
			func() { // partly repaired; the remaining fault is reported too
				simnet.WritePair(t, next, c.TLSCert, c.TLSKey)
				_ = os.Chmod(c.TLSKey, 0o644)
			},
			func() { _ = os.Remove(c.TLSKey) },
		} {
			bad()
			for range 5 {
				time.Sleep(tlsfiles.ReadInterval)
				if got := serial(); got != next.Leaf.SerialNumber.String() {
					t.Errorf("certificate %s is used, want the old one on", got)
				}
			}
			log.wants("cannot load the TLS files; keeping the previous certificate", i+1)
		}
		simnet.WritePair(t, next, c.TLSCert, c.TLSKey)
		time.Sleep(tlsfiles.ReadInterval)
		serial()
		log.wants("cannot load the TLS files; keeping the previous certificate", 5) // as before
	})
}

// TestCertificateThatBeginsLater checks that a certificate that is not yet valid is used as soon as
// it becomes valid. The clock of its issuer may be ahead.
func TestCertificateThatBeginsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pki := simnet.NewAuthority(t)
		c := pkiConfig(t, 1, pki)
		s, err := c.parse()
		if err != nil {
			t.Fatal(err)
		}
		r, err := openCertificates(s, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		later := pki.Issue("10.0.0.1", func(x *x509.Certificate) {
			x.NotBefore = time.Now().Add(10 * time.Second)
		})
		simnet.WritePair(t, later, c.TLSCert, c.TLSKey)
		for _, after := range []time.Duration{5 * time.Second, 6 * time.Second} {
			before := time.Now()
			time.Sleep(after)
			used := r.Current().Certificate.Leaf.SerialNumber.Cmp(later.Leaf.SerialNumber) == 0
			if begun := !time.Now().Before(later.Leaf.NotBefore); used != begun {
				t.Errorf("%v later: used %v, want %v", time.Since(before), used, begun)
			}
		}
	})
}

// TestCertificateNotRenewed checks that a certificate that is not renewed causes one warning before
// it expires and one afterwards. A CA certificate that expires first must cause the same warnings.
func TestCertificateNotRenewed(t *testing.T) {
	for name, life := range map[string]time.Duration{
		"certificate": 100 * time.Hour, "authority": 20 * 365 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testNobodyRenews(t, life) })
		})
	}
}

func testNobodyRenews(t *testing.T, life time.Duration) {
	pki := simnet.NewAuthority(t)
	c := pkiConfig(t, 1, pki)
	begin := time.Now()
	simnet.WritePair(t, pki.Issue("10.0.0.1", func(x *x509.Certificate) {
		x.NotBefore, x.NotAfter = begin, begin.Add(life)
	}), c.TLSCert, c.TLSKey)
	s, err := c.parse()
	if err != nil {
		t.Fatal(err)
	}
	j := &journal{level: zerolog.WarnLevel}
	r, err := openCertificates(s, logTo(zerolog.New(j)))
	if err != nil {
		t.Fatal(err)
	}
	good := min(life, pki.Ends.Sub(begin))
	if got := r.Expires().Sub(begin); got != good {
		t.Errorf("good for %v, want %v", got, good)
	}
	for _, step := range []struct {
		at          time.Duration
		soon, ended int // lines
	}{
		{good * 8 / 10, 0, 0},
		{good*9/10 + time.Minute, 1, 0},
		{good - time.Minute, 1, 0},
		{good + time.Minute, 1, 1},
		{good + time.Hour, 1, 1},
	} {
		time.Sleep(step.at - time.Since(begin))
		r.Current()
		soon, _ := j.about("the certificate of this node, or an authority above it, expires soon: " +
			"replace the TLS files")
		ended, _ := j.about("the certificate of this node, or an authority above it, has expired, " +
			"so other nodes refuse it: replace the TLS files")
		if len(soon) != step.soon || len(ended) != step.ended ||
			len(j.lines) != step.soon+step.ended {
			t.Errorf("after %v of %v: %q, want %d and %d lines about the end",
				step.at, good, j.lines, step.soon, step.ended)
		}
	}
}

// TestCertificateOfManyNames checks that the largest accepted certificate passes a handshake.
func TestCertificateOfManyNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := simnet.NewPacketNet(time.Millisecond)
		pki := simnet.NewAuthority(t)
		names := func(bytes int) (c *tls.Certificate) {
			for n := bytes/12 - 60; c == nil || len(c.Certificate[0]) < bytes-9; n++ {
				c = pki.Issue("", func(x *x509.Certificate) {
					x.IPAddresses, x.DNSNames = []net.IP{{10, 0, 0, 1}, {10, 0, 0, 2}}, nil
					for i := range n {
						x.DNSNames = append(x.DNSNames, fmt.Sprintf("%05d.node", i))
					}
				})
			}
			return c
		}
		large := names(tlsfiles.MaxChainBytes - 20)
		if got := len(large.Certificate[0]); got > tlsfiles.MaxChainBytes {
			t.Fatalf("the certificate has %d bytes, want at most %d", got, tlsfiles.MaxChainBytes)
		}
		for i := range 2 {
			c := pkiConfig(t, i+1, pki)
			simnet.WritePair(t, large, c.TLSCert, c.TLSKey)
			n, err := Start(t.Context(), c, WithSocket(p.Open), WithClock(time.Now))
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			if i == 1 {
				if err := n.WaitActive(t.Context(), 2); err != nil {
					t.Error(err)
				}
			}
		}
		c := pkiConfig(t, 1, pki)
		simnet.WritePair(t, names(tlsfiles.MaxChainBytes+30), c.TLSCert, c.TLSKey)
		configCase{"too large", c, "leave out names"}.check(t)
	})
}

// TestImpostorsEndNoStart checks that Start does not give up because of a process that claims the
// address of a seed with a certificate of its own.
func TestImpostorsEndNoStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := simnet.NewPacketNet(time.Millisecond)
		pki := simnet.NewAuthority(t)
		have := quicnet.Credentials{Certificate: pki.Issue("10.0.0.9", nil), Authorities: pki.Pool()}
		elsewhere := func(c transport.Config) (transport.Network, error) {
			socket, err := p.Open("10.0.0.9:7000")
			if err != nil {
				return nil, err
			}
			tls := quicnet.CertificateTLS(func() quicnet.Credentials { return have }, time.Now)
			return quicnet.New(quicnet.Config{Config: c, Conn: socket, TLS: tls, Named: true})
		}
		impostor := quicConfig(2, clusterSecret) // accepted only by nodes without certificates
		impostor.Seeds = impostor.Seeds[:2]
		x, err := Start(t.Context(), impostor, WithTransport(elsewhere), WithClock(time.Now))
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		c := pkiConfig(t, 1, pki)
		c.Seeds, c.JoinOnly = c.Seeds[:2], true
		warnings, logger := keep(zerolog.WarnLevel)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err = Start(ctx, c, WithSocket(p.Open), WithClock(time.Now), logger)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Start: got %v, want it to wait for the seed until the context ends", err)
		}
		const want = "it is for 10.0.0.9, not for 10.0.0.2:7000"
		if lines, _ := warnings.about(want); len(lines) != 1 {
			t.Errorf("%q logs %q, want one line with %q", c.Addr, lines, want)
		}
	})
}

// TestWholeStackWithCertificates checks that a cluster forms over TLS, survives the renewal of its
// certificates, and stops when they are not renewed.
func TestWholeStackWithCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := simnet.NewPacketNet(time.Millisecond)
		options := []Option{WithSocket(p.Open), WithClock(time.Now),
			WithLogger(slog.New(slog.DiscardHandler))}
		pki := simnet.NewAuthority(t)
		const life = 3 * time.Minute
		nodes, configs := make([]*Node, 3), make([]Config, 3)
		renew := func(i int) {
			host, _, _ := strings.Cut(configs[i].Addr, ":")
			renewed := pki.Issue(host, func(x *x509.Certificate) { x.NotAfter = time.Now().Add(life) })
			simnet.WritePair(t, renewed, configs[i].TLSCert, configs[i].TLSKey)
		}
		for i := range nodes {
			configs[i] = pkiConfig(t, i+1, pki)
			renew(i)
			var err error
			if nodes[i], err = Start(t.Context(), configs[i], options...); err != nil {
				t.Fatalf("Start of node %d: %v", i+1, err)
			}
			defer nodes[i].Close()
		}
		active := func() {
			t.Helper()
			for _, n := range nodes {
				if err := n.WaitActive(t.Context(), 3); err != nil {
					t.Fatal(err)
				}
			}
		}
		active()
		token := nodes[0].Status().Token
		// Each certificate is renewed before it expires, without any effect on the cluster.
		for range 4 {
			time.Sleep(life / 2)
			for i := range nodes {
				renew(i)
			}
		}
		active()
		if got := nodes[0].Status(); got.Token != token || got.Token.IsZero() {
			t.Errorf("token %v after %v: renewed certificates cost a leader", got.Token, token)
		}
		time.Sleep(tlsfiles.ReadInterval)
		left := time.Until(nodes[0].Status().CertificateExpires)
		if left < life-2*tlsfiles.ReadInterval || left > life {
			t.Errorf("the certificate ends in %v, want %v", left, life)
		}
		time.Sleep(life) // no more renewals
		for i, n := range nodes {
			if got := n.Status().Transport.Connections; got != 0 {
				t.Errorf("node %d: %d connections with certificates that ended", i+1, got)
			}
		}
	})
}

// TestAuthorityAddedAndRemoved adds an authority to the files without a reload, and removes it with
// one. A node with a certificate of that authority must lose its connections.
func TestAuthorityAddedAndRemoved(t *testing.T) {
	var pki *simnet.Authority // made when the clock of the test runs
	config := func(t *testing.T, i int) Config {
		if pki == nil {
			pki = simnet.NewAuthority(t)
		}
		return pkiConfig(t, i, pki)
	}
	inRotation(t, config, func(r *rotation) {
		other := simnet.NewAuthority(r.t)
		authorities, err := os.ReadFile(pki.Path)
		added, otherErr := os.ReadFile(other.Path)
		write := func(text []byte) {
			time.Sleep(tlsfiles.ReadInterval)
			err = errors.Join(err, otherErr, os.WriteFile(pki.Path, text, 0o600))
			if err != nil {
				r.t.Fatal(err)
			}
		}
		c := r.configs[2]
		host, _, _ := strings.Cut(c.Addr, ":")
		write(append(bytes.Clone(authorities), added...))
		simnet.WritePair(r.t, other.Issue(host, nil), c.TLSCert, c.TLSKey)
		r.nodes[2].net.ReplaceConns()
		time.Sleep(15 * time.Second)
		r.checkLeader(r.nodes[0].Status().Token)
		write(authorities)
		for i, n := range r.nodes[:2] {
			if err := n.SetCredentials(r.configs[i]); err != nil {
				r.t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Second)
		for i, n := range r.nodes[:2] {
			if got := n.Status().Transport.Connections; got != 1 {
				r.t.Errorf("node %d has %d connections, want one", i+1, got)
			}
		}
	})
}
