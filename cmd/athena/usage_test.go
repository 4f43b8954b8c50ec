// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
)

// TestMain unsets the ATHENA_ variables inherited from the shell.
func TestMain(m *testing.M) {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, settings.EnvironmentPrefix) {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

// TestVariablesOfTheShell runs some tests with ATHENA_ variables in the environment, and checks
// that the variables do not affect them.
func TestVariablesOfTheShell(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^(TestRunUsage|TestRunCannotStart)$")
	cmd.Env = append(os.Environ(), "ATHENA_SIZE=3", "ATHENA_SEEDS=127.0.0.1:7001,127.0.0.1:7002",
		"ATHENA_SECRET_FILE=try/secret", "ATHENA_ADMN=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// athena runs a command line in this process.
func athena(args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	code = executeCommand(time.Now(), args, &out, &errOut)
	return code, out.String(), errOut.String()
}

// usageCase is an invalid command line with the texts expected on standard error.
type usageCase struct {
	name string
	args []string
	want []string
}

// wantRefused checks that each command line exits with 2, prints the expected errors, and prints
// nothing on standard output.
func wantRefused(t *testing.T, cases []usageCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := athena(c.args...)
			if code != cli.ExitUsage || stdout != "" {
				t.Errorf("athena %q: code %d, standard output %q, want %d and none",
					c.args, code, stdout, cli.ExitUsage)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("athena %q prints\n%s\nwant %q in it", c.args, stderr, want)
				}
			}
		})
	}
}

func TestRunUsage(t *testing.T) {
	secret := secretFile(t, soundSecret, 0o600)
	good := []string{"run", "--addr", "127.0.0.1:7001", "--size", "3",
		"--seeds", "127.0.0.1:7001,127.0.0.1:7002"}
	run := func(more ...string) []string {
		return append(append([]string{}, good...), more...)
	}
	wantRefused(t, []usageCase{
		{"unknown flag", []string{"run", "--frob"}, []string{"--frob", "athena run --help"}},
		{"misspelt flag", []string{"run", "--seed", "a:1"}, []string{"--seed;", "mean --seeds?"}},
		{"half a flag", []string{"run", "--secret", "f"},
			[]string{"--secret; did you mean --secret-file?"}},
		{"one dash", []string{"run", "-size", "3"}, []string{"-size;", "mean --size?"}},
		{"no number", run("--size", "three"), []string{`--size "three": must be an integer`}},
		{"great number", run("--size", "9999999999999999999"), []string{"is out of range"}},
		{"no duration", run("--ttl-timeout", "10"), []string{`--ttl-timeout "10": must be a duration`}},
		{"not a boolean", run("--memory=yes"), []string{`--memory "yes": must be true or false`}},
		{"seeds in words", run("--seeds", "127.0.0.1:7001", "127.0.0.1:7002"),
			[]string{`"127.0.0.1:7002": separate seeds by commas`}},
		{"seeds in one word", run("--seeds", "127.0.0.1:7001 127.0.0.1:7002"),
			[]string{"--seeds", "separate seeds by commas"}},
		{"argument", run("now"), []string{`unexpected argument "now"`}},
		{"nothing", []string{"run"}, []string{
			"--addr is required: the host:port", "--size is required: ", "--seeds", "--secret-file",
		}},
		{"no secret", run(), []string{"--secret-file", "--insecure"}},
		{"both", run("--secret-file", secret, "--insecure"),
			[]string{"--insecure contradicts --secret-file /"}},
		{"no such secret", run("--secret-file", secret+"x"),
			[]string{"--secret-file", "no such file"}},
		{"open secret", run("--secret-file", secretFile(t, soundSecret, 0o644)),
			[]string{"mode 0644", "chmod 600"}},
		{"short secret", run("--secret-file", secretFile(t, "short\n", 0o600)),
			[]string{"is text but not base64", "athena secret new "}},
		{"password", run("--secret-file", secretFile(t, "passwordpassword\n", 0o600)),
			[]string{"has at most 12 random bytes", "needs 32", "athena secret new "}},
		{"long secret", run("--secret-file", secretFile(t, strings.Repeat("s", 5000), 0o600)),
			[]string{"5000 bytes", "the limit is 4096"}},
		{"secret is a folder", run("--secret-file", t.TempDir()), []string{"not a regular file"}},
		{"open other secret", run("--secret-file", secret,
			"--other-secret-file", secretFile(t, soundSecret, 0o644)),
			[]string{"--other-secret-file: /", "mode 0644", "chmod 600"}},
		{"other secret alone", run("--insecure", "--other-secret-file", secret),
			[]string{"--other-secret-file is set, but --secret-file is not"}},
		{"bad address", run("--secret-file", secret, "--addr", "nowhere"),
			[]string{`--addr "nowhere"`}},
		{"any address", run("--secret-file", secret, "--addr", ":7001"),
			[]string{`--addr ":7001"`, "set --advertise"}},
		{"every address", run("--secret-file", secret, "--addr", "0.0.0.0:7001"),
			[]string{`--addr "0.0.0.0:7001"`, "set --advertise"}},
		{"too large", run("--secret-file", secret, "--size", "1000"), []string{"--size 1000"}},
		{"too small for the seeds", run("--secret-file", secret, "--size", "1"),
			[]string{"--seeds has 2 entries, but --size is 1"}},
		{"profile", run("--secret-file", secret, "--profile", "moon"),
			[]string{`--profile "moon"`, "local, lan, wan or classic"}},
		{"timings", run("--secret-file", secret, "--heartbeat-interval", "2s"),
			[]string{"--heartbeat-interval 2s", "--heartbeat-timeout 400ms"}},
		{"no time", run("--secret-file", secret, "--ttl-timeout", "0s"), []string{"--ttl-timeout 0s"}},
		{"two stores", run("--secret-file", secret, "--memory", "--data-dir", "d"),
			[]string{`--memory contradicts --data-dir "d"`}},
		{"transport", run("--secret-file", secret, "--transport", "tcp"), []string{"quic or tls"}},
		{"log format", run("--secret-file", secret, "--log-format", "xml"),
			[]string{"json or console"}},
		{"log level", run("--secret-file", secret, "--log-level", "all"), []string{`"all"`, "debug"}},
		{"insecure off loopback", run("--insecure", "--addr", "10.0.0.1:7001"), []string{"loopback"}},
	})
}

func TestRunUsageOfCertificates(t *testing.T) {
	secret := secretFile(t, soundSecret, 0o600)
	run := func(more ...string) []string {
		return append([]string{"run", "--addr", "127.0.0.1:7001", "--size", "1"}, more...)
	}
	wantRefused(t, []usageCase{
		{"certificates and a secret", run("--secret-file", secret, "--tls-cert", "c"),
			[]string{"--tls-cert contradicts --secret-file /", "--tls-ca is missing",
				"--tls-key is missing"}},
		{"certificates and insecure", run("--insecure", "--tls-ca", "a", "--tls-cert", "c",
			"--tls-key", "k"), []string{"--insecure true: contradicts --tls-cert", "--tls-key: open k: no"}},
		{"certificates and insecure-anywhere", run("--insecure-anywhere", "--tls-cert", "c"),
			[]string{"--insecure-anywhere contradicts --tls-cert", "--tls-ca is missing"}},
	})
}

// TestAdminUsage checks that the admin API needs a token if other machines can reach it.
func TestAdminUsage(t *testing.T) {
	secret := secretFile(t, soundSecret, 0o600)
	run := func(more ...string) []string {
		return append([]string{"run", "--addr", "127.0.0.1:7001", "--size", "1"}, more...)
	}
	wantRefused(t, []usageCase{
		{"admin", run("--secret-file", secret, "--admin", "7070"), []string{"host:port", "off"}},
		{"open admin", run("--secret-file", secret, "--admin", ":7070"),
			[]string{"needs a token", "--admin-token-file"}},
		{"short token", run("--secret-file", secret, "--admin", ":7070", "--admin-token-file",
			secretFile(t, "short", 0o600)), []string{"--admin-token-file: /", "at least 16"}},
		{"open token", run("--secret-file", secret, "--admin", ":7070", "--admin-token-file",
			secretFile(t, strings.Repeat("t", 32), 0o644)), []string{"--admin-token-file: /", "chmod 600"}},
		{"TLS without a key", run("--secret-file", secret, "--admin", "127.0.0.1:0",
			"--admin-cert", "c"), []string{"--admin-cert needs --admin-key"}},
		{"client certificates without TLS", run("--secret-file", secret, "--admin", ":7070",
			"--admin-client-ca", "c"), []string{"--admin-client-ca needs --admin-cert"}},
		{"no certificate", run("--secret-file", secret, "--admin", "127.0.0.1:0",
			"--admin-cert", secret, "--admin-key", secret), []string{"--admin-cert: /", "no PEM"}},
		{"TLS on a socket", run("--secret-file", secret, "--admin", "unix:/tmp/a", "--admin-cert", "c",
			"--admin-key", "k"), []string{"--admin-cert", "needs no TLS"}},
		{"client certificate without TLS", []string{"leader", "--admin-client-cert", "c",
			"--admin-client-key", "k"}, []string{"--admin-ca"}},
		{"no authority", []string{"leader", "--admin-ca", secret}, []string{"--admin-ca: /", "no PEM"}},
		{"write to nothing", run("--secret-file", secret, "--admin-write"),
			[]string{"--admin-write needs an admin API", "set --admin"}},
	})
}

// TestVariablesUsage checks that errors name the variables instead of the flags that they set, and
// that a misspelled variable is reported too.
func TestVariablesUsage(t *testing.T) {
	secret := secretFile(t, soundSecret, 0o600)
	for name, value := range map[string]string{
		"ATHENA_SECRET_FILE": secret, "ATHENA_SIZ": "3", "ATHENA_DATA_DIR": "d",
		"ATHENA_PROFILE": "moon", "ATHENA_TTL_TIMEOUT": "0s", "ATHENA_LOG_LEVEL": "all",
		"ATHENA_LOG_FORMAT": "xml", "ATHENA_SEEDS": "nowhere", "ATHENA_ADMIN": "7070",
	} {
		t.Setenv(name, value)
	}
	siz := "ATHENA_SIZ is ignored: unknown variable; did you mean ATHENA_SIZE?\n"
	wantRefused(t, []usageCase{
		{"contradiction", []string{"run", "--insecure-anywhere"},
			[]string{"--insecure-anywhere contradicts ATHENA_SECRET_FILE " + secret, siz}},
		{"two stores", []string{"run", "--memory"},
			[]string{`--memory contradicts ATHENA_DATA_DIR "d"`}},
		{"values", []string{"run", "--size", "0"}, []string{
			`ATHENA_PROFILE "moon"`, `ATHENA_LOG_LEVEL "all"`, `ATHENA_LOG_FORMAT "xml"`,
			`ATHENA_SEEDS[0] "nowhere"`, "ATHENA_ADMIN: ", "--size", siz}},
		{"timings", []string{"run", "--profile", "lan"}, []string{"ATHENA_TTL_TIMEOUT 0s"}},
		{"no such secret", []string{"run", "--secret-file", "/nowhere"}, []string{"--secret-file: "}},
		{"flags", []string{"run", "--frob"}, []string{"--frob", siz}},
		{"address of the node", []string{"leader"}, []string{"ATHENA_ADMIN: ", siz}},
	})
}

func TestUsage(t *testing.T) {
	wantRefused(t, []usageCase{
		{"unknown verb", []string{"frob"}, []string{`unknown command "frob"`, "athena --help"}},
		{"argument", []string{"version", "now"}, []string{"now"}},
		{"output", []string{"members", "-o", "xml"}, []string{"table or json"}},
		{"address of the node", []string{"leader", "--admin", "7070"}, []string{"--admin", "host:port"}},
		{"size of the demo", []string{"demo", "--size", "0"}, []string{"--size 0"}},
		{"jobs of the demo", []string{"demo", "--jobs", "21"}, []string{"--jobs 21"}},
		{"script", []string{"demo", "--script", "flood"}, []string{"failover, partition or rolling"}},
		{"too few for a script", []string{"demo", "--size", "2", "--script", "failover"},
			[]string{"--size 3"}},
		{"time of the demo", []string{"demo", "--for", "-1s"}, []string{"--for -1s"}},
		{"admin of the demo", []string{"demo", "--admin", "0.0.0.0:7070"}, []string{"needs a token"}},
		{"size of a simulation", []string{"sim", "--size", "21"}, []string{"--size 21"}},
		{"negative size", []string{"sim", "--size", "-1"}, []string{"--size -1"}},
		{"time of a simulation", []string{"sim", "--for", "100h"}, []string{"--for 100h", "24h"}},
		{"negative time", []string{"sim", "--for", "-1s"}, []string{"--for -1s"}},
		{"budget of a simulation", []string{"sim", "--budget", "-1s"}, []string{"--budget -1s"}},
		{"nothing to replay", []string{"sim", "--replay", "nowhere.json"}, []string{"nowhere.json"}},
		{"no end of a replay", []string{"sim", "--replay", "/dev/zero"}, []string{"larger than 64 MiB"}},
		{"negative minutes", []string{"sim", "--for", "-5m"},
			[]string{"--for -5m0s", "between 0", "24h"}},
		{"history in a form", []string{"sim", "--history=xml", "--seed", "1"}, []string{"--history=xml"}},
		{"history of many", []string{"sim", "--history"}, []string{"--history", "--seed"}},
		{"history of two", []string{"sim", "--history", "--seed", "1", "--runs", "2"},
			[]string{"--history"}},
		{"seed of a replay", []string{"sim", "--replay", "x", "--seed", "1"},
			[]string{"remove --seed"}},
		{"runs of a replay", []string{"sim", "--replay", "x", "--runs", "1"},
			[]string{"remove --runs"}},
		{"size of a replay", []string{"sim", "--replay", "x", "--size", "3"},
			[]string{"remove --size"}},
		{"time of a replay", []string{"sim", "--replay", "x", "--for", "1m"},
			[]string{"remove --for"}},
		{"budget of a replay", []string{"sim", "--replay", "x", "--budget", "1m"},
			[]string{"remove --budget"}},
		{"shrunk replay", []string{"sim", "--replay", "x", "--shrink", "y"},
			[]string{"remove --shrink"}},
		{"coverage of a replay", []string{"sim", "--replay", "x", "--coverage"},
			[]string{"remove --coverage"}},
		{"nowhere to shrink to", []string{"sim", "--seed", "7", "--shrink", "nowhere/x.json"},
			[]string{"--shrink: ", "nowhere/x.json"}},
		{"no seed left", []string{"sim", "--seed", "18446744073709551615", "--runs", "2"},
			[]string{"the last seed"}},
		{"runs", []string{"sim", "--runs", "0"}, []string{"--runs 0"}},
		{"seed", []string{"sim", "--seed", "-1"}, []string{"--seed"}},
		{"nothing to measure", []string{"bench"}, []string{"measurement missing", "failover, ",
			"bench --help"}},
		{"unknown measurement", []string{"bench", "frob"}, []string{`"frob"`, "one of", "oneway"}},
		{"sizes to measure", []string{"bench", "formation", "--size", "3,x"},
			[]string{`--size "3,x": must be integers separated by commas`}},
		{"settings to measure", []string{"bench", "oneway", "-n", "1", "--reps", "0", "--for", "0s",
			"--payload-bytes", "-1", "--workers", "9999", "--seeds", "-1", "--lease-timeout", "-1s"},
			[]string{"--size 1: must be between 2 and 255", "--reps 0", "--for 0s", "--payload-bytes -1",
				"--workers 9999", "--seeds -1", "--lease-timeout -1s"}},
		{"deaths to measure", []string{"bench", "detection", "--signals", "kill,term", "--size", "2"},
			[]string{`--signals "term": must be kill or stop`, "--size 2"}},
		{"no use for a flag", []string{"bench", "formation", "--signals", "kill"},
			[]string{"--signals", "athena bench formation --help"}},
	})
}

// TestRunCannotStart checks that the error includes a remedy, and that a misspelled variable is
// reported before it.
func TestRunCannotStart(t *testing.T) {
	t.Setenv("ATHENA_SIZ", "3")
	taken, err := admin.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	broken := t.TempDir()
	if err := os.Chmod(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "reset.key"), []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []usageCase{
		{"address of another machine", []string{"--addr", "192.0.2.1:7001", "--memory"},
			[]string{"athena: --addr 192.0.2.1:7001: not an address", "0.0.0.0 and set --advertise"}},
		{"admin in use", []string{"--addr", "127.0.0.1:7001", "--memory", "--admin",
			admin.AddrOf(taken)}, []string{"athena: --admin: admin: listen on " + admin.AddrOf(taken),
			"stop the other process or choose another port", "nearest=ATHENA_SIZE variable=ATHENA_SIZ\n"}},
		{"broken key", []string{"--addr", "127.0.0.1:7001", "--data-dir", broken},
			[]string{"athena: --data-dir " + broken, "reset.key", "remove it"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"run", "--insecure-anywhere", "--size", "1", "--log-level", "warn"},
				c.args...)
			code, _, stderr := athena(args...)
			if code != cli.ExitFailed {
				t.Errorf("athena %q: code %d, want %d", args, code, cli.ExitFailed)
			}
			for _, want := range append(c.want, "ATHENA_SIZ") {
				if !strings.Contains(stderr, want) {
					t.Errorf("athena %q prints\n%s\nwant %q in it", args, stderr, want)
				}
			}
		})
	}
}

// TestAllFaultsAtOnce checks that all faults of a command line are reported.
func TestAllFaultsAtOnce(t *testing.T) {
	_, _, stderr := athena("run", "--addr", "nowhere", "--size", "-1", "--profile", "moon",
		"--log-level", "all", "--admin", "7070")
	for _, want := range []string{"nowhere", "--size -1", "moon", `"all"`, "7070", "--secret-file"} {
		if strings.Count(stderr, want) < 1 {
			t.Errorf("five faults and no secret: got\n%s\nwant %q in it", stderr, want)
		}
	}
}

// soundSecret has the format of a secret from athena secret new.
const soundSecret = "DtqIQXDG2kJw18xWQ4PL2FytV5wmOw4G8bwJUTZHaeg="

func secretFile(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestHelpAndVersion(t *testing.T) {
	t.Setenv("ATHENA_SIZ", "3") // these commands do not read the variable
	for _, c := range []struct{ arg, want string }{
		{"--help", "Available Commands"}, {"version", "athena "}, {"help", "members"},
		{"--version", versionText() + "\n"},
	} {
		code, stdout, stderr := athena(c.arg)
		if code != cli.ExitDone || !strings.Contains(stdout, c.want) || stderr != "" {
			t.Errorf("athena %s: code %d, %q, error %q, want %d and %q",
				c.arg, code, stdout, stderr, cli.ExitDone, c.want)
		}
	}
	if _, stdout, _ := athena("run", "--help"); strings.Contains(stdout, "supervised") {
		t.Errorf("athena run --help shows a flag of the demo only:\n%s", stdout)
	}
}

// configFile writes a configuration file and returns its path.
func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "athena.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
