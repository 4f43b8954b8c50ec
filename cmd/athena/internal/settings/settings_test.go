// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/simnet"
)

// parsed parses the flags of a command line.
func parsed(t *testing.T, args ...string) (*Settings, *pflag.FlagSet) {
	t.Helper()
	var s Settings
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	s.Define(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &s, f
}

// in returns a getenv function for the given environment.
func in(environ map[string]string) func(string) string {
	return func(name string) string { return environ[name] }
}

// resolve reads flags and variables in the same way as athena run.
func resolve(t *testing.T, environ map[string]string, args ...string) cluster.Config {
	t.Helper()
	s, f := parsed(t, args...)
	c, err := s.Read(f, in(environ))
	if err != nil {
		t.Fatalf("run %q: %v", args, err)
	}
	return c
}

func TestResolve(t *testing.T) {
	secret := writeSecret(t, testSecret+"\r\n", 0o600)
	other := writeSecret(t, otherSecret+"\n", 0o600)
	environ := map[string]string{"ATHENA_OTHER_SECRET_FILE": other}
	got := resolve(t, environ, "--addr", ":7000", "--advertise", "a:7000",
		"--name", "n", "--cluster", "c", "--size", "3", "--seeds", "a:7000,b:7000", "--seeds", "d:7000",
		"--join-only",
		"--data-dir", "data", "--secret-file", secret, "--profile", "wan", "--leader-timeout", "4s")
	want := cluster.WANConfig()
	want.Addr, want.Advertise, want.Name, want.Cluster = ":7000", "a:7000", "n", "c"
	want.Size, want.Seeds = 3, []string{"a:7000", "b:7000", "d:7000"}
	want.JoinOnly, want.DataDir, want.Secret = true, "data", []byte(testSecret)
	want.OtherSecret = []byte(otherSecret)
	want.LeaderTimeout, want.SeatTimeout = 4*time.Second, cluster.DefaultSeatTimeout
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestResolveCertificates checks that three TLS files replace a secret.
func TestResolveCertificates(t *testing.T) {
	pki := simnet.NewAuthority(t)
	cert, key := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	simnet.WritePair(t, pki.Issue("10.0.0.1", nil), cert, key)
	got := resolve(t, map[string]string{"ATHENA_TLS_CA": pki.Path}, "--addr", "10.0.0.1:7000",
		"--size", "1", "--tls-cert", cert, "--tls-key", key)
	if got.TLSCA != pki.Path || got.TLSCert != cert || got.TLSKey != key || got.Insecure ||
		got.Secret != nil {
		t.Errorf("got %+v, want the files, and not insecure", got)
	}
}

// TestEnvironment checks that flags override variables, and variables override defaults.
func TestEnvironment(t *testing.T) {
	environ := map[string]string{
		"ATHENA_ADDR":          "127.0.0.1:7001",
		"ATHENA_SIZE":          "5",
		"ATHENA_SEEDS":         "127.0.0.1:7001, 127.0.0.1:7002",
		"ATHENA_INSECURE":      "true",
		"ATHENA_MEMORY":        "true",
		"ATHENA_TTL_TIMEOUT":   "7s",
		"ATHENA_SUPERVISED":    "true", // hidden flags have no variables
		"ATHENA_SERVICE_HOST":  "10.0.0.1",
		"ATHENA_PORT":          "tcp://10.0.0.1:7000",
		"ATHENA_LEADER_TIMOUT": "1s",
		"ATHENA_JOIN_ONLY":     "", // counts as unset
		"ATHENA_LEASE_TIMEOUT": "",
	}
	got := resolve(t, environ, "--size", "3")
	want := cluster.DefaultConfig()
	want.Addr, want.Size, want.Cluster = "127.0.0.1:7001", 3, cluster.DefaultCluster
	want.Seeds, want.Insecure = []string{"127.0.0.1:7001", "127.0.0.1:7002"}, true
	want.TTLTimeout, want.Memory = 7*time.Second, true
	want.SeatTimeout = cluster.DefaultSeatTimeout
	want.LeaseTimeout = got.LeaseTimeout // Start chooses the default
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	bad := map[string]string{
		"ATHENA_SIZE": "three", "ATHENA_JOIN_ONLY": "yes", "ATHENA_TTL_TIMEOUT": "10",
		"ATHENA_SEEDS": "a:1 b:2",
	}
	err := FromEnvironment(Flags(), in(bad))
	var usage cli.UsageError
	if !errors.As(err, &usage) {
		t.Fatalf("%v: %v, want a UsageError", bad, err)
	}
	for _, want := range []string{
		`ATHENA_SIZE="three": must be an integer`, `ATHENA_JOIN_ONLY="yes": must be true or false`,
		`ATHENA_TTL_TIMEOUT="10": must be a duration`, `ATHENA_SEEDS="a:1 b:2": separate seeds by`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got\n%v\nwant %q in it", bad, err, want)
		}
	}
}

// TestSeedList checks that spaces around commas are allowed, and that repeating the flag adds to
// the list.
func TestSeedList(t *testing.T) {
	s, _ := parsed(t, "--seeds", " a:1, b:2 ,c:3", "--seeds", "", "--seeds", "d:4")
	if diff := cmp.Diff([]string{"a:1", "b:2", "c:3", "d:4"}, s.config.Seeds); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestMisspelledVariable checks that unknown variables are reported with the most similar known
// variable, and that variables set by container platforms are ignored.
func TestMisspelledVariable(t *testing.T) {
	got := Misspelled([]string{
		"PATH=/bin", "ATHENA_SIZE=3", "ATHENA_LEADER_TIMOUT=1s", "ATHENA_SEED=a:1=", "ATHENA_DATADIR=d",
		"ATHENA_SERVICE_HOST=10.0.0.1", "ATHENA_SERVICE_PORT_QUIC=7000", "ATHENA_PORT=udp://h:7000",
		"ATHENA_PORT_7000_UDP_ADDR=10.0.0.1", "ATHENA_DB_SERVICE_PORT=1", "MY_ATHENA_SIZ=3",
	})
	want := [][2]string{
		{"ATHENA_LEADER_TIMOUT", "ATHENA_LEADER_TIMEOUT"}, {"ATHENA_SEED", "ATHENA_SEEDS"},
		{"ATHENA_DATADIR", "ATHENA_DATA_DIR"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDefaultDataDir(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "/h")
	base := "/h/.local/state/athena"
	for _, c := range []struct{ state, cluster, addr, want string }{
		{"", "athena", "127.0.0.1:7000", base + "/athena@127.0.0.1_7000"},
		{"relative", "athena", "127.0.0.1:7000", base + "/athena@127.0.0.1_7000"},
		{"/s", "athena", "db-1.local:7000", "/s/athena/athena@db-1.local_7000"},
		{"/s", "../up", "[::1]:7000", "/s/athena/..%2Fup@%5B__1%5D_7000"},
		{"/s", "..", "h:1", "/s/athena/..@h_1"},
	} {
		t.Setenv("XDG_STATE_HOME", c.state)
		got := resolve(t, nil, "--addr", c.addr, "--cluster", c.cluster, "--size", "1",
			"--seeds", c.addr, "--insecure-anywhere").DataDir
		if got != filepath.FromSlash(c.want) {
			t.Errorf("XDG_STATE_HOME=%q, cluster %q, %s: %s, want %s",
				c.state, c.cluster, c.addr, got, c.want)
		}
	}
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	s, f := parsed(t, "--addr", "127.0.0.1:7000", "--size", "1", "--insecure")
	if _, err := s.Read(f, in(nil)); err == nil || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("without a home: %v, want an error that names --data-dir", err)
	}
	c := resolve(t, nil, "--addr", "127.0.0.1:7000", "--size", "1", "--insecure", "--memory")
	if c.DataDir != "" {
		t.Errorf("--memory: data directory %q, want none", c.DataDir)
	}
}

// TestSizeIsDecimal checks that a leading zero does not mean octal.
func TestSizeIsDecimal(t *testing.T) {
	var size int
	for text, want := range map[string]int{"3": 3, "010": 10, "0x10": 0, "1e1": 0} {
		size = 0
		if err := (decimal{&size}).Set(text); size != want || (err == nil) != (want > 0) {
			t.Errorf("%s: got %d, %v; want %d, or an error if that is 0", text, size, err, want)
		}
	}
}
