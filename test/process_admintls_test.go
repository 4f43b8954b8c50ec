// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/internal/simnet"
)

// adminTLS is a node whose admin API uses TLS and client certificates.
type adminTLS struct {
	*nodes
	at               string
	servers, clients *simnet.Authority
}

func (c *adminTLS) file(name string) string { return filepath.Join(c.dir, name) }

// issue writes a certificate NAME.pem and its key NAME.key, valid for a time.
func (c *adminTLS) issue(a *simnet.Authority, name, host string, valid time.Duration) {
	cert := a.Issue(host, func(x *x509.Certificate) { x.NotAfter = time.Now().Add(valid) })
	simnet.WritePair(c.t, cert, c.file(name+".pem"), c.file(name+".key"))
}

// write writes the configuration of the admin API.
func (c *adminTLS) write(lines ...string) (path string) {
	return c.secret("admin.yaml", strings.Join(append(lines, "admin: "+c.at), "\n"))
}

// leader runs athena leader with the certificate NAME.pem, or without one, and returns the exit
// code and its errors.
func (c *adminTLS) leader(ca *simnet.Authority, name string) (code int, stderr string) {
	c.t.Helper()
	args := []string{"leader", "--admin", c.at, "--admin-ca", ca.Path}
	if name != "" {
		args = append(args, "--admin-client-cert", c.file(name+".pem"),
			"--admin-client-key", c.file(name+".key"))
	}
	code, _, stderr = run(c.t, args...)
	return code, stderr
}

// expect runs athena leader, which must fail with a text, or succeed if the text is empty.
func (c *adminTLS) expect(name string, ca *simnet.Authority, cert, want string) {
	c.t.Helper()
	code, stderr := c.leader(ca, cert)
	if (code == 0) != (want == "") || !strings.Contains(stderr, want) {
		c.t.Errorf("%s: exit %d, %s, want %q", name, code, stderr, want)
	}
}

// TestProcessAdminTLS queries a node with the right and with wrong certificates, and replaces the
// files by SIGHUP: all of them, or none if one is invalid.
func TestProcessAdminTLS(t *testing.T) {
	t.Parallel()
	c := &adminTLS{newNodes(t, 1), freeAddresses(t, 1)[0],
		simnet.NewAuthority(t), simnet.NewAuthority(t)}
	c.issue(c.servers, "server", "127.0.0.1", time.Hour)
	c.issue(c.clients, "ops", "ops", time.Hour)
	c.issue(c.servers, "stranger", "stranger", time.Hour)
	lines := []string{"admin-cert: " + c.file("server.pem"), "admin-key: " + c.file("server.key"),
		"admin-client-ca: " + c.file("clients.pem"), "admin-write: true"}
	trust := func(a *simnet.Authority) {
		text, err := os.ReadFile(a.Path)
		if err != nil {
			t.Fatal(err)
		}
		c.secret("clients.pem", string(text))
	}
	trust(c.clients)
	flags := c.flags(1, "--config", c.write(lines...), "--log-format", "json")
	at := slices.Index(flags, "--admin")
	p := start(t, slices.Delete(flags, at, at+2)...)
	eventually(t, "a leader", func() bool { code, _ := c.leader(c.servers, "ops"); return code == 0 })
	const needed = "client certificate of an accepted authority required"
	const refused = "the node at 127.0.0.1:" // the authorities of tests have the same name
	c.expect("no certificate", c.servers, "", needed)
	c.expect("a certificate of another authority", c.servers, "stranger", refused)
	c.expect("an authority that did not issue the server's", c.clients, "ops", "unknown authority")
	code, _, stderr := run(t, "leader", "--admin", c.at)
	if want := "the server uses TLS: set --admin-ca"; code != 1 || !strings.Contains(stderr, want) {
		t.Errorf("without TLS: exit %d, %s, want 1 and %q", code, stderr, want)
	}

	// An expired certificate and a new authority: neither is used.
	c.issue(c.servers, "server", "127.0.0.1", -time.Second)
	trust(c.servers)
	p.reload(notReloaded)
	c.expect("after an invalid reload", c.servers, "ops", "")
	// What needs a restart keeps its old value, and the other keys of the file are reloaded.
	for i, without := range []string{"admin-client-ca", "admin-"} {
		c.issue(c.servers, "server", "127.0.0.1", time.Hour)
		rest := slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
			return strings.HasPrefix(line, without)
		})
		c.write(append(rest, fmt.Sprint("preference: ", i+1))...)
		p.reload([]string{`"keys":"admin-client-ca"`,
			`"keys":"admin-cert,admin-client-ca,admin-key,admin-write"`}[i])
		if got := strings.Count(p.stderr.String(), `"changed":"preference"`); got != i+1 {
			t.Errorf("without %s: %d reloads of the preference, want %d", without, got, i+1)
		}
		c.expect("after a reload without "+without, c.servers, "", needed)
	}
	// A key that needs a restart: the API stays as it is.
	c.issue(c.servers, "server", "127.0.0.1", time.Hour)
	c.secret("admin.yaml", strings.Join(append(lines[:3:3], "admin: off"), "\n"))
	p.reload(reloaded)
	c.expect("after a reload with the API off", c.servers, "ops", "")
	c.write(lines...)
	p.reload(reloaded)
	c.expect("the certificate of a removed authority", c.servers, "ops", refused)
	c.expect("the certificate of the new authority", c.servers, "stranger", "")
	code, _, stderr = run(t, "label", "zone=b", "--admin", c.at, "--admin-ca", c.servers.Path,
		"--admin-client-cert", c.file("stranger.pem"), "--admin-client-key", c.file("stranger.key"))
	if code != 0 {
		t.Errorf("label: exit %d, %s", code, stderr)
	}
	want := `"action":"labels","request":"{\"labels\":{\"zone\":\"b\"}}","outcome":"ok",` +
		`"by":"certificate CN=node of a test"`
	eventually(t, "a line with "+want, func() bool { // which is written after the response
		return strings.Contains(p.stderr.String(), want)
	})
}

// TestPrometheusUsesTLS scrapes such a node with the commented lines of prometheus.yaml.
func TestPrometheusUsesTLS(t *testing.T) {
	t.Parallel()
	c := &adminTLS{newNodes(t, 1), freeAddresses(t, 1)[0],
		simnet.NewAuthority(t), simnet.NewAuthority(t)}
	c.issue(c.servers, "server", "127.0.0.1", time.Hour)
	c.issue(c.clients, "prometheus", "prometheus", time.Hour)
	const token = "0123456789-the-token"
	c.start(1, "--admin", c.at, "--admin-cert", c.file("server.pem"), "--admin-key",
		c.file("server.key"), "--admin-client-ca", c.clients.Path,
		"--admin-token-file", c.secret("token", token))
	m := startPrometheus(t, token, []string{c.at, c.at, c.at},
		"# scheme: https", "scheme: https", "# tls_config:", "tls_config:",
		"#   ca_file: admin-ca.pem", "  ca_file: "+c.servers.Path,
		"#   cert_file: prometheus.pem", "  cert_file: "+c.file("prometheus.pem"),
		"#   key_file: prometheus.key", "  key_file: "+c.file("prometheus.key"))
	m.waitScraped("sum(athena_has_quorum)==1")
}
