// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/lock"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/transport/quicnet"
	"github.com/athena-go/athena/transport/tlsnet"
)

// transports are the functions that open the networks of nodes and observers.
var transports = map[string]func(transport.Config) (transport.Network, error){
	"QUIC": nil, "TLS": tlsnet.Open,
}

// startAlone starts a cluster of one node.
func startAlone(
	t *testing.T, open func(transport.Config) (transport.Network, error), c cluster.Config,
) *cluster.Node {
	t.Helper()
	c.Size, c.Receiver = 1, receiver.NewMux()
	receiver.HandleRequest(c.Receiver, func(_ context.Context, _ member.Member, a ask) (int, error) {
		return a.N + 1, nil
	})
	opts := []cluster.Option{
		cluster.WithLogger(slog.New(slog.DiscardHandler)), cluster.WithWorkers(1),
	}
	if open != nil {
		opts = append(opts, cluster.WithTransport(open))
	}
	n, err := cluster.Start(t.Context(), c, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// TestObserverOnSockets asks a member over QUIC and over TLS, reads the leader of a job and the
// owner of a shard, and checks that an observer with another secret is refused.
func TestObserverOnSockets(t *testing.T) {
	for name, open := range transports {
		t.Run(name, func(t *testing.T) {
			addr, secret := freeAddress(t), cluster.NewSecret()
			n := startAlone(t, open, cluster.Config{Addr: addr, Secret: secret})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			job, err := election.OpenJob(ctx, n.Records(), "backup", election.JobOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer job.Close(context.Background())
			if _, err := job.WaitLeader(ctx); err != nil {
				t.Fatal(err)
			}
			cfg := Config{
				Cluster: cluster.DefaultCluster, Members: []string{addr}, Secret: secret, Transport: open,
			}
			o, err := Start(ctx, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			if got, err := RequestLeader[int](ctx, o, ask{1}); err != nil || got != 2 {
				t.Errorf("request: got %d, %v; want 2", got, err)
			}
			if h, err := o.JobLeader(ctx, "backup"); err != nil || h.ID != addr || h.Token.IsZero() {
				t.Errorf("leader of the job: got %+v, %v; want %s", h, err, addr)
			}
			if h, err := o.LockHolder(ctx, "carts/7"); err != nil || h != (leader.Holder{}) {
				t.Errorf("owner of a shard without one: got %+v, %v", h, err)
			}
			slot, err := lock.New(n.Records(), "carts/7")
			if err != nil {
				t.Fatal(err)
			}
			defer slot.Close(context.Background())
			if err := slot.Do(ctx, func(ctx context.Context, term leader.Term) error {
				h, err := o.LockHolder(ctx, "carts/7")
				if h.ID != addr || h.Token != term.Token() {
					t.Errorf("owner of a shard: got %+v, %v; want %s with %v", h, err, addr, term.Token())
				}
				return err
			}); err != nil {
				t.Error(err)
			}
			lockAsWorker(ctx, t, o, n)
			cfg.Secret = cluster.NewSecret()
			short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err = Start(short, cfg)
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, transport.ErrCertificate) {
				t.Errorf("another secret: got %v, want ErrCertificate", err)
			}
		})
	}
}

// lockAsWorker makes an observer hold a lock for some time.
func lockAsWorker(ctx context.Context, t *testing.T, o *Observer, n *cluster.Node) {
	t.Helper()
	work, err := o.Work(ctx)
	if err != nil {
		t.Fatal(err)
	}
	nightly, err := lock.New(work.Records(), "nightly")
	if err != nil {
		t.Fatal(err)
	}
	defer nightly.Close(context.Background())
	if err := nightly.Do(ctx, func(ctx context.Context, term leader.Term) error {
		for end := time.Now().Add(2 * n.HoldRemaining()); time.Now().Before(end); {
			if _, err := RequestLeader[int](ctx, o, ask{1}); err != nil {
				return err
			}
		}
		h, err := o.LockHolder(ctx, "nightly")
		if h.Token != term.Token() || !term.Valid() {
			t.Errorf("holder: got %+v, want token %v", h, term.Token())
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestObserverCertificates checks that an observer needs a certificate of the authority, which need
// not name a host, but must not be for another cluster.
func TestObserverCertificates(t *testing.T) {
	pki, other := simnet.NewAuthority(t), simnet.NewAuthority(t)
	for name, open := range transports {
		dir := t.TempDir()
		c := cluster.Config{
			Addr: freeAddress(t), TLSCA: pki.Path, TLSCert: filepath.Join(dir, "cert"),
			TLSKey: filepath.Join(dir, "key"),
		}
		simnet.WritePair(t, pki.Issue("127.0.0.1", nil), c.TLSCert, c.TLSKey)
		startAlone(t, open, c)
		for _, o := range []struct {
			certificate *tls.Certificate
			accepted    bool
		}{
			{pki.Issue("dashboard.example", nil), true},
			{pki.Issue("athena:///"+cluster.DefaultCluster+"/dashboard", nil), true},
			{pki.Issue("athena:///other/dashboard", nil), false},
			{other.Issue("127.0.0.1", nil), false},
		} {
			leaf := o.certificate.Leaf
			t.Run(fmt.Sprint(name, leaf.DNSNames, leaf.URIs), func(t *testing.T) {
				t.Parallel()
				have := quicnet.Credentials{Certificate: o.certificate, Authorities: pki.Pool()}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				if !o.accepted {
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), 2*probeStep)
				}
				got, err := Start(ctx, Config{
					Cluster: cluster.DefaultCluster, Members: []string{c.Addr}, Transport: open,
					TLS: quicnet.CertificateTLS(func() quicnet.Credentials { return have }, time.Now),
				})
				cancel()
				if err == nil {
					got.Close()
				}
				if (err == nil) != o.accepted {
					t.Errorf("got %v, accepted: %v", err, o.accepted)
				}
				if !o.accepted && !strings.Contains(fmt.Sprint(err), "certificate") {
					t.Errorf("got %v, want an error that names the certificate", err)
				}
			})
		}
	}
}

// freeAddress returns an address of this host whose port no process uses.
func freeAddress(t *testing.T) string {
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	return socket.Addr().String()
}
