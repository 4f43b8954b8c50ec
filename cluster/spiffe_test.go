// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/internal/simnet"
)

const spiffeID = "spiffe://example.org/athena"

// spiffeConfig is like pkiConfig, but with the SVID of an ID, which all nodes share.
func spiffeConfig(t *testing.T, i int, pki *simnet.Authority, id string) Config {
	t.Helper()
	c := pkiConfig(t, i, pki)
	c.TLSSPIFFE = id
	simnet.WritePair(t, pki.Issue(id, nil), c.TLSCert, c.TLSKey)
	return c
}

// TestWholeStackWithSVIDs forms a cluster of nodes with one SPIFFE ID, and rotates their files as
// spiffe-helper does: first the SVIDs, which live for minutes, then the bundle and the SVIDs of
// another authority. A node with another ID of the same authority must not get in.
func TestWholeStackWithSVIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := simnet.NewPacketNet(time.Millisecond)
		options := []Option{WithSocket(p.Open), WithClock(time.Now),
			WithLogger(slog.New(slog.DiscardHandler))}
		pki, next := simnet.NewAuthority(t), simnet.NewAuthority(t)
		const life = 3 * time.Minute
		nodes, configs := make([]*Node, 2), make([]Config, 2)
		rotate := func(pki *simnet.Authority) {
			for _, c := range configs {
				renewed := pki.Issue(spiffeID, func(x *x509.Certificate) { x.NotAfter = time.Now().Add(life) })
				simnet.WritePair(t, renewed, c.TLSCert, c.TLSKey)
			}
		}
		for i := range nodes {
			configs[i] = spiffeConfig(t, i+1, pki, spiffeID)
			bundle, err := os.ReadFile(pki.Path)
			configs[i].TLSCA = configs[i].TLSCert + ".bundle"
			if err = errors.Join(err, os.WriteFile(configs[i].TLSCA, bundle, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		rotate(pki)
		for i, c := range configs {
			var err error
			if nodes[i], err = Start(t.Context(), c, options...); err != nil {
				t.Fatalf("Start of node %d: %v", i+1, err)
			}
			defer nodes[i].Close()
		}
		active := func() (token string) {
			t.Helper()
			for _, n := range nodes {
				if err := n.WaitActive(t.Context(), 2); err != nil {
					t.Fatal(err)
				}
			}
			return nodes[0].Status().Token.String()
		}
		token := active()
		for range 4 {
			time.Sleep(life / 2)
			rotate(pki)
		}

		_, err := Start((&world{t: t}).within(time.Minute),
			spiffeConfig(t, 3, pki, "spiffe://example.org/other"), options...)
		if err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("a node with another ID: got %v, want a refusal of its certificate", err)
		}

		both, err := os.ReadFile(pki.Path)
		added, otherErr := os.ReadFile(next.Path)
		for _, texts := range [][]byte{append(both, added...), added} {
			for i, c := range configs {
				err = errors.Join(err, otherErr, os.WriteFile(c.TLSCA, texts, 0o600))
				rotate(next)
				err = errors.Join(err, nodes[i].SetCredentials(c))
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(life / 2)
		}
		if got := active(); got != token {
			t.Errorf("token %v after %v: rotated files cost a leader", got, token)
		}
	})
}

func TestValidateSPIFFE(t *testing.T) {
	pki := simnet.NewAuthority(t)
	for id, want := range map[string]string{
		spiffeID:                           "",
		"spiffe://example.org/ns/a/sa/b.c": "",
		"spiffe://example.org":             "must be a SPIFFE ID",
		"spiffe:///athena":                 "must be a SPIFFE ID",
		"spiffe://example.org/athena/":     "must be a SPIFFE ID",
		"spiffe://example.org/a/../athena": "must be a SPIFFE ID",
		"spiffe://example.org:80/athena":   "must be a SPIFFE ID",
		"spiffe://u@example.org/athena":    "must be a SPIFFE ID",
		"spiffe://example.org/athena?a=b":  "must be a SPIFFE ID",
		"spiffe://example.org/%61thena":    "must be a SPIFFE ID",
		"https://example.org/athena":       "must be a SPIFFE ID",
	} {
		c := spiffeConfig(t, 1, pki, spiffeID)
		simnet.WritePair(t, pki.Issue(strings.ReplaceAll(id, "%", ""), nil), c.TLSCert, c.TLSKey)
		c.TLSSPIFFE = id
		err := c.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", id, err, want)
		}
	}
	c := spiffeConfig(t, 1, pki, "spiffe://example.org/other")
	c.TLSSPIFFE = spiffeID
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "want only "+spiffeID) {
		t.Errorf("the SVID of another workload: got %v, want both IDs", err)
	}
	c = quicConfig(1, clusterSecret)
	c.TLSSPIFFE = spiffeID
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "TLSCert is not") {
		t.Errorf("with a secret: got %v, want a fault", err)
	}
}
