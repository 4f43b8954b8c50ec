// SPDX-License-Identifier: Apache-2.0

package certmagic_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	magic "github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/contrib/certmagic"
	"github.com/athena-go/athena/record"
)

const site = "*.example.org"

// issuer is a certificate authority that takes ten seconds to issue a certificate. The organization
// in the certificate is the number of the node.
type issuer struct {
	node   string
	issued chan<- string
}

func (issuer) IssuerKey() string { return "test" }

func (u issuer) Issue(
	ctx context.Context, csr *x509.CertificateRequest,
) (*magic.IssuedCertificate, error) {
	u.issued <- u.node
	wait := time.NewTimer(10 * time.Second)
	select {
	case <-wait.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{u.node}},
		DNSNames: csr.DNSNames, NotBefore: time.Now(), NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, csr.PublicKey, key)
	if err != nil {
		return nil, err
	}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &magic.IssuedCertificate{Certificate: chain}, nil
}

// manage obtains the certificate of the site with certmagic.
func manage(ctx context.Context, s magic.Storage, u issuer) error {
	var config *magic.Config
	cache := magic.NewCache(magic.CacheOptions{
		GetConfigForCert: func(magic.Certificate) (*magic.Config, error) { return config, nil },
		Logger:           zap.NewNop(),
	})
	defer cache.Stop()
	config = magic.New(cache, magic.Config{
		Storage: s, Issuers: []magic.Issuer{u}, Logger: zap.NewNop(),
	})
	return config.ObtainCertSync(ctx, site)
}

// stored returns the organization of the certificate in a directory, or "".
func stored(t *testing.T, dir string) (found string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".crt") {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		block, _ := pem.Decode(text)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return err
		}
		found = cert.Subject.Organization[0]
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestKill kills the process that obtains a certificate. Another process then obtains a
// certificate. The killed process continues without its node, and cannot store its certificate.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	issued := make(chan string, 9)
	var ended [3]error
	main := func(ctx context.Context, i int, cfg cluster.Config, opts ...cluster.Option) error {
		node, err := cluster.Start(ctx, cfg, opts...)
		if err != nil {
			return err
		}
		defer node.Leave(context.WithoutCancel(ctx))
		if err := node.WaitActive(ctx, 3); err != nil {
			return err
		}
		name := string(rune('0' + i))
		s := certmagic.NewStorage(&magic.FileStorage{Path: dir}, node.Records())
		ended[i] = manage(context.WithoutCancel(ctx), s, issuer{node: name, issued: issued})
		<-ctx.Done()
		return nil
	}
	athenatest.Run(t, athenatest.Options{Main: main}, func(t *testing.T, c *athenatest.Cluster) {
		c.Within(10*time.Second, "a process asks for a certificate", func() bool {
			return len(issued) > 0
		})
		killed := int((<-issued)[0] - '0')
		c.Advance(5 * time.Second)
		c.Crash(killed)
		c.Advance(6 * time.Second) // the killed process now has its certificate
		if len(issued) == 0 {
			t.Fatal("no process took the lock of the killed one")
		}
		second := <-issued
		if err := ended[killed]; err == nil || !strings.Contains(err.Error(), "was lost") {
			t.Errorf("the killed process: got %v, want that its lock was lost", err)
		}
		if got := stored(t, dir); got != "" {
			t.Errorf("a certificate of node %s is stored", got)
		}
		c.Advance(30 * time.Second)
		if got := stored(t, dir); got != second || len(issued) > 0 {
			t.Errorf("stored that of node %q, want %s; %d more issued", got, second, len(issued))
		}
	})
}

// TestLockIsLost drops a lock by hand, and checks all that certmagic may call next.
func TestLockIsLost(t *testing.T) {
	table, files := record.NewMemory(), &magic.FileStorage{Path: t.TempDir()}
	ctx := t.Context()
	s := certmagic.NewStorage(files, table.Store("a"))
	long := "issue_cert_" + strings.Repeat("a.", 120) + "example.org" // it is too long for a key
	lock := "issue_cert_" + site
	for _, name := range []string{lock, long} {
		if err := s.Lock(ctx, name); err != nil {
			t.Fatal(err)
		}
		if ok, err := s.TryLock(ctx, name); ok || err != nil {
			t.Errorf("TryLock in the same process: got %v, %v", ok, err)
		}
		other := certmagic.NewStorage(files, table.Store("b"))
		if ok, err := other.TryLock(ctx, name); ok || err != nil {
			t.Errorf("TryLock in another process: got %v, %v", ok, err)
		}
	}
	key := magic.StorageKeys.SiteCert("test", site)
	if err := s.Store(ctx, key, nil); err != nil {
		t.Errorf("Store under the lock: %v", err)
	}
	table.Expire("a")
	for what, err := range map[string]error{
		"Store": s.Store(ctx, key, nil), "Delete": s.Delete(ctx, key), "Unlock": s.Unlock(ctx, long),
	} {
		if err == nil || !strings.Contains(err.Error(), "lost") {
			t.Errorf("%s after the loss: got %v", what, err)
		}
	}
	if err := s.Store(ctx, magic.StorageKeys.SiteCert("test", "example.com"), nil); err != nil {
		t.Errorf("Store of another site: %v", err)
	}
	if err := s.RenewLockLease(ctx, lock, time.Minute); err != nil {
		t.Errorf("RenewLockLease: %v", err)
	}
	if err := errors.Join(s.Store(ctx, key, nil), s.Unlock(ctx, lock)); err != nil {
		t.Errorf("after the lock was acquired again: %v", err)
	}
	if err := s.Unlock(ctx, lock); err == nil {
		t.Error("a second Unlock succeeded")
	}
}
