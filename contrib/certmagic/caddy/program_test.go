// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"

	"github.com/athena-go/athena/test/programs"
)

const (
	site         = "www.example.org"
	orderPath    = "/order-plz"
	finalizePath = "/finalize-order/"
)

// authority is Pebble, the test server of Let's Encrypt. It accepts each proof of a domain, because
// the domain of the test does not exist.
type authority struct {
	*httptest.Server
	roots *x509.CertPool // of its certificates

	mu     sync.Mutex
	served map[string]int // requests by path, without the one held
	held   chan struct{}  // closed when a request is held
}

// newAuthority starts a Pebble that never answers the first request whose path has a prefix.
func newAuthority(t *testing.T, prefix string) *authority {
	t.Setenv("PEBBLE_VA_ALWAYS_VALID", "1")
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "0")
	quiet, store := log.New(io.Discard, "", 0), db.NewMemoryStore()
	issuer := ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {}})
	front := wfe.New(quiet, store, va.New(quiet, 0, 0, false, "", store), issuer, nil, false, false,
		1, 1)
	a := &authority{
		roots: x509.NewCertPool(), served: map[string]int{}, held: make(chan struct{}),
	}
	a.roots.AppendCertsFromPEM(issuer.GetRootCert(0).PEM())
	pebble := front.Handler()
	a.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, prefix) && a.holdFirst() {
			<-t.Context().Done()
			return
		}
		a.countRequest(r.URL.Path)
		pebble.ServeHTTP(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

// holdFirst returns true if it is called for the first time.
func (a *authority) holdFirst() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.held:
		return false
	default:
		close(a.held)
		return true
	}
}

func (a *authority) countRequest(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if strings.HasPrefix(path, finalizePath) {
		path = finalizePath // without the number of the order
	}
	a.served[path]++
}

func (a *authority) countServed(path string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.served[path]
}

// writeConfig writes a configuration of Caddy that serves the site at an address.
func (a *authority) writeConfig(t *testing.T, address, shared string) (path string) {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "root.pem")
	certificate := pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: a.Certificate().Raw,
	})
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	type list = []any
	text, err := json.Marshal(object{
		"admin":   object{"disabled": true, "config": object{"persist": false}},
		"storage": object{"module": "athena", "root": shared},
		"apps": object{
			"http": object{
				"https_port": json.Number(port),
				"servers": object{"test": object{
					"listen":          list{address},
					"automatic_https": object{"disable_redirects": true},
					"routes": list{object{
						"match":  list{object{"host": list{site}}},
						"handle": list{object{"handler": "static_response"}},
					}},
				}},
			},
			"tls": object{"automation": object{"policies": list{object{
				"issuers": list{object{
					"module": "acme", "ca": a.URL + wfe.DirectoryPath,
					"trusted_roots_pem_files": list{root},
					"challenges":              object{"http": object{"disabled": true}},
				}},
			}}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "caddy.json")
	for name, content := range map[string][]byte{root: certificate, path: text} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// awaitSerial waits until a server has a valid certificate of the site, and returns its number.
func (a *authority) awaitSerial(t *testing.T, address string) (serial string) {
	t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-poll.C {
		var conn *tls.Conn
		conn, err = tls.Dial("tcp", address, &tls.Config{ServerName: site, RootCAs: a.roots})
		if err == nil {
			defer conn.Close()
			return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
		}
	}
	t.Fatalf("%s has no certificate: %v", address, err)
	return ""
}

// TestProgram runs Caddy as three processes, and kills the one that obtains a certificate: before
// the authority has its order, and before the authority has issued the certificate. Another process
// obtains the certificate, and all serve it.
func TestProgram(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "caddy")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for killedAt, orders := range map[string]int{orderPath: 1, finalizePath: 2} {
		t.Run(strings.Trim(killedAt, "/"), func(t *testing.T) {
			a, shared := newAuthority(t, killedAt), t.TempDir()
			var addresses, configs []string
			for range 3 {
				address := programs.FreeAddress(t)
				addresses = append(addresses, address)
				configs = append(configs, a.writeConfig(t, address, shared))
			}
			p := programs.StartPrograms(t, func(i int) *exec.Cmd {
				cmd := exec.Command(binary, "run", "--config", configs[i])
				home := filepath.Dir(configs[i])
				cmd.Env = []string{"XDG_DATA_HOME=" + home, "XDG_CONFIG_HOME=" + home}
				return cmd
			})
			first := p.NextWorker(0, 1, `"lock acquired"`)
			<-a.held
			second := p.NextWorker(p.End(first, syscall.SIGKILL), 1, `"certificate obtained successfully"`)
			p.Start(first)
			want := a.awaitSerial(t, addresses[second])
			for i, address := range addresses {
				if got := a.awaitSerial(t, address); got != want {
					t.Errorf("process %d has certificate %s, want %s of process %d", i, got, want, second)
				}
			}
			if o, c := a.countServed(orderPath), a.countServed(finalizePath); o != orders || c != 1 {
				t.Errorf("%d orders and %d certificates, want %d and 1", o, c, orders)
			}
		})
	}
}
