// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
	"github.com/athena-go/athena/transport/quicnet"
)

// sound is a valid configuration file.
const sound = "addr: 127.0.0.1:7001\nsize: 3\n" +
	"seeds: [127.0.0.1:7001, 127.0.0.1:7002]\ninsecure: true\n"

// TestConfigCheck checks that config check accepts a file that athena run accepts, creates nothing
// and exits with 0.
func TestConfigCheck(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	t.Setenv("ATHENA_SIZ", "3")
	path := configFile(t, sound)
	code, stdout, stderr := athena("config", "check", "--config", path, "--data-dir", dir)
	if code != cli.ExitDone || !strings.HasPrefix(stdout,
		"no errors: node 127.0.0.1:7001 of cluster") ||
		!strings.Contains(stderr, "ATHENA_SIZ is ignored") ||
		!strings.Contains(stderr, `default name "athena"`) || strings.Count(stderr, "\n") != 3 {
		t.Errorf("code %d, %q, %q, want %d, no errors and three warnings", code, stdout, stderr,
			cli.ExitDone)
	}
	_, _, stderr = athena("config", "check", "--config", path, "--data-dir", dir, "--cluster", "c")
	if strings.Contains(stderr, "default name") {
		t.Errorf("cluster c: got %q, want no warning about the name", stderr)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("check created the data directory")
	}
}

// TestConfigCheckOfGroups checks that config check checks the groups alone if nothing configures a
// node.
func TestConfigCheckOfGroups(t *testing.T) {
	const groups = "groups: {a: {strategy: lowest}, b: {strategy: static}}\n"
	t.Setenv("ATHENA_ADMIN", "127.0.0.1:7070") // also read by athena group
	for _, c := range []struct {
		file, flag string
		code       int
		want       string
	}{
		{groups, "", cli.ExitDone, "no errors: groups a, b, and no node\n"},
		{"groups: {a: {strategy: static, alive: 1s}}", "", cli.ExitUsage, "alive applies only to"},
		{"groups: {a: 3}", "", cli.ExitUsage, ":1:13: must consist of lines"},
		{groups + "adr: 127.0.0.1:7001\n", "", cli.ExitUsage, "did you mean addr?"},
		{groups + "size: 3\n", "", cli.ExitUsage, "--addr is required"},
		{groups, "--size=3", cli.ExitUsage, "--addr is required"},
		{"groups: {}\n", "", cli.ExitUsage, "--addr is required"},
		{groups + sound, "", cli.ExitDone, "no errors: node 127.0.0.1:7001"},
	} {
		args := []string{"config", "check", "--config", configFile(t, c.file)}
		if c.flag != "" {
			args = append(args, c.flag)
		}
		code, stdout, stderr := athena(args...)
		extra := !strings.Contains(c.want, "addr") && strings.Contains(stderr, "--addr is required")
		if code != c.code || !strings.Contains(stdout+stderr, c.want) || extra {
			t.Errorf("%q %s: code %d, %q, %q, want %d and %q", c.file, c.flag, code, stdout, stderr,
				c.code, c.want)
		}
	}
}

// TestConfigCheckWarnsOfOverrides checks the warning about keys of the file that have no effect.
func TestConfigCheckWarnsOfOverrides(t *testing.T) {
	path := configFile(t, sound+"cluster: a\nmemory: true\n")
	t.Setenv("ATHENA_CLUSTER", "b")
	code, _, stderr := athena("config", "check", "--config", path, "--seeds", "127.0.0.1:7001")
	want := "warning: " + path + ":5: cluster has no effect: ATHENA_CLUSTER overrides it\n" +
		"warning: " + path + ":3: seeds has no effect: --seeds overrides it\n"
	if code != cli.ExitDone || stderr != want {
		t.Errorf("code %d, %q, want %d, %q", code, stderr, cli.ExitDone, want)
	}
}

// TestConfigCheckWarnsOfTwoSeeds checks the warning about two seeds in a cluster of three or more.
// A majority of two seeds is both seeds, so no cluster can form while one of them is down.
func TestConfigCheckWarnsOfTwoSeeds(t *testing.T) {
	const warning = "warning: with two seeds, both must be up before the cluster can form"
	for _, c := range []struct {
		size, seeds string
		want        bool
	}{
		{"3", "127.0.0.1:7001", false},
		{"3", "127.0.0.1:7001,127.0.0.1:7002", true},
		{"3", "127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003", false},
		{"5", "127.0.0.1:7002,127.0.0.1:7001", true},
		{"2", "127.0.0.1:7001,127.0.0.1:7002", false}, // a cluster of two needs both nodes anyway
	} {
		code, stdout, stderr := athena("config", "check", "--addr", "127.0.0.1:7001", "--cluster", "c",
			"--insecure", "--memory", "--size", c.size, "--seeds", c.seeds)
		if code != cli.ExitDone || !strings.HasPrefix(stdout, "no errors") ||
			strings.Contains(stderr, warning) != c.want || !c.want && stderr != "" {
			t.Errorf("size %s, seeds %s: code %d, %q, %q, want %d and a warning: %t",
				c.size, c.seeds, code, stdout, stderr, cli.ExitDone, c.want)
		}
	}
}

// TestConfigCheckWarnsOfAnAddressMissingInSeeds checks the warning that the seeds are as many as
// the members, but this node is not among them. A node beside fewer seeds is no seed.
func TestConfigCheckWarnsOfAnAddressMissingInSeeds(t *testing.T) {
	const warning = "warning: --seeds names as many nodes as --size, but not 127.0.0.1:7009: "
	for _, c := range []struct {
		size, seeds string
		want        bool
	}{
		{"3", "127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003", true},
		{"3", "127.0.0.1:7001,127.0.0.1:7009,127.0.0.1:7003", false},
		{"5", "127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003", false},
		{"1", "127.0.0.1:7001", true},
		{"1", "", false},
		{"3", "srv:_athena._udp.example.org", false},
	} {
		code, _, stderr := athena("config", "check", "--addr", "127.0.0.1:7009", "--cluster", "c",
			"--insecure-anywhere", "--memory", "--size", c.size, "--seeds", c.seeds)
		if code != cli.ExitDone || strings.Contains(stderr, warning) != c.want ||
			!c.want && stderr != "" {
			t.Errorf("size %s, seeds %s: code %d, %q, want %d and a warning: %t",
				c.size, c.seeds, code, stderr, cli.ExitDone, c.want)
		}
	}
}

// usedStore creates a store that contains the promise of a cluster node.
func usedStore(t *testing.T, o store.Origin) (dir string, release func()) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	s, err := store.OpenFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Load(); err != nil {
		t.Fatal(err)
	}
	key := storekey.New()
	c := store.Content{Origin: o, Key: key, Durable: paxos.Durable{StoreID: key.StoreID()}}
	c.Promised = paxos.ID{Version: 1, Ballot: paxos.Ballot{Round: 1, Proposer: o.Address}}
	if err := s.Save(c); err != nil {
		t.Fatal(err)
	}
	return dir, func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestConfigCheckReadsFiles checks that config check reads the files that athena run would open,
// even while a node uses them.
func TestConfigCheckReadsFiles(t *testing.T) {
	address := member.Address{Host: "127.0.0.1", Port: 7001}
	dir, release := usedStore(t, store.Origin{Cluster: "orders", Size: 3, Address: address})
	defer release()
	path := configFile(t, sound)
	check := func(more ...string) []string {
		return append([]string{"config", "check", "--config", path}, more...)
	}
	wantRefused(t, []usageCase{
		{"store of another cluster", check("--data-dir", dir), []string{
			`--cluster "athena": the store was made for "orders": start with that name`}},
		{"store of another size", check("--data-dir", dir, "--cluster", "orders", "--size", "5"),
			[]string{"--size 5: the store was made for 3"}},
		{"store of another address", check("--data-dir", dir, "--cluster", "orders", "--addr",
			"127.0.0.1:7002"), []string{
			"--advertise 127.0.0.1:7002: the store was made for 127.0.0.1:7001"}},
		{"no folder for the socket", check("--admin", "unix:/nowhere/a", "--size", "0"),
			[]string{"--admin: admin: listen on unix:/nowhere/a: /nowhere is not a directory: ", "--size"}},
		{"nothing", []string{"config"}, []string{"check or show"}},
	})
	socket, err := quicnet.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	api, err := admin.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	for _, args := range [][]string{
		check("--data-dir", dir, "--cluster", "orders", "--advertise", "127.0.0.1:7001",
			"--addr", socket.LocalAddr().String(), "--admin", admin.AddrOf(api)),
		check("--admin", "unix:"+filepath.Join(t.TempDir(), "s")),
	} {
		if code, _, stderr := athena(args...); code != cli.ExitDone {
			t.Errorf("athena %q: code %d, %s", args, code, stderr)
		}
	}
}

// TestConfigShow checks that config show prints each effective value with its origin.
func TestConfigShow(t *testing.T) {
	path := configFile(t, sound)
	t.Setenv("ATHENA_CONFIG", path)
	t.Setenv("ATHENA_PROFILE", "wan")
	t.Setenv("HOME", "/h")
	t.Setenv("XDG_STATE_HOME", "")
	code, stdout, stderr := athena(
		"config", "show", "--name", "a b", "--lease-timeout=4s", "-o", "json")
	var all []settings.Effective
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || code != cli.ExitDone ||
		stderr != "" {
		t.Fatalf("code %d, %v, error %q\n%s", code, err, stderr, stdout)
	}
	got := map[string]settings.Effective{}
	for _, one := range all {
		got[one.Key] = one
	}
	for _, want := range []settings.Effective{
		{Key: "size", Value: 3.0, From: "file", At: path + ":2"},
		{Key: "insecure", Value: true, From: "file", At: path + ":4"},
		{Key: "config", Value: path, From: "env", At: "ATHENA_CONFIG"},
		{Key: "profile", Value: "wan", From: "env", At: "ATHENA_PROFILE"},
		{Key: "name", Value: "a b", From: "flag", At: "--name"},
		{Key: "lease-timeout", Value: "4s", From: "flag", At: "--lease-timeout"},
		{Key: "ttl-timeout", Value: "30s", From: "default", At: ""},
		{Key: "advertise", Value: "127.0.0.1:7001", From: "default", At: ""},
		{Key: "data-dir", Value: "/h/.local/state/athena/athena@127.0.0.1_7001", From: "default", At: ""},
		{Key: "memory", Value: false, From: "default", At: ""},
	} {
		if got[want.Key] != want {
			t.Errorf("%+v, want %+v", got[want.Key], want)
		}
	}
	seeds, ok := got["seeds"].Value.([]any)
	if !ok || !slices.Equal(seeds, []any{"127.0.0.1:7001", "127.0.0.1:7002"}) {
		t.Errorf("seeds: %v, want a list", got["seeds"].Value)
	}
	if want := settings.Settable(settings.Flags()); len(all) != len(want) {
		t.Errorf("%d settings, want %q", len(all), want)
	}
	_, stdout, _ = athena("config", "show")
	for _, want := range []string{
		"KEY ", "\nsize  ", " file " + path + ":2\n", " env ATHENA_PROFILE\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the table\n%s\nwant %q in it", stdout, want)
		}
	}
}

// TestConfigShowsFaultsToo checks that faults are printed after the values that could be read, and
// that a secret is never printed.
func TestConfigShowsFaultsToo(t *testing.T) {
	secret := secretFile(t, soundSecret, 0o600)
	code, stdout, stderr := athena("config", "show", "--config", configFile(t, sound+"frob: 1\n"),
		"--size=5", "--insecure=false", "--secret-file", secret, "--other-secret-file", secret,
		"--addr", "10.0.0.1:7001\x1b[31m")
	if code != cli.ExitUsage || !strings.Contains(stderr, `:5:1: unknown key "frob"`) {
		t.Errorf("code %d, error\n%s\nwant %d and the error", code, stderr, cli.ExitUsage)
	}
	if !strings.Contains(stdout, "5  ") || !strings.Contains(stdout, secret) ||
		strings.Contains(stdout+stderr, soundSecret) || strings.Contains(stdout, "\x1b") {
		t.Errorf("prints\n%s\nwant the size and the path of the secret, no secret, no escape", stdout)
	}
}

// TestConfigShowWithoutSecret checks that insecure is shown as false if the secret is missing.
func TestConfigShowWithoutSecret(t *testing.T) {
	_, stdout, stderr := athena("config", "show", "--size=3")
	if !strings.Contains(stderr, "no secret") ||
		!regexp.MustCompile(`(?m)^insecure +false +default$`).MatchString(stdout) ||
		!regexp.MustCompile(`(?m)^insecure-anywhere +false +default$`).MatchString(stdout) {
		t.Errorf("prints\n%s\nand %s\nwant no secret, and false twice", stdout, stderr)
	}
}

// TestOriginOfRefusedStore checks that athena run and config check report the same origin for the
// setting that does not match the store.
func TestOriginOfRefusedStore(t *testing.T) {
	dir, release := usedStore(t, store.Origin{
		Cluster: "athena", Size: 5, Address: member.Address{Host: "127.0.0.1", Port: 7001},
	})
	release()
	path := configFile(t, sound+"data-dir: "+dir+"\n")
	for _, verb := range [][]string{{"run"}, {"config", "check"}} {
		code, _, stderr := athena(append(verb, "--config", path)...)
		if want := path + ":2: size 3: the store was made for 5"; code != cli.ExitUsage ||
			!strings.Contains(stderr, want) {
			t.Errorf("athena %q: code %d, prints\n%s\nwant %d and %q", verb, code, stderr,
				cli.ExitUsage, want)
		}
	}
}
