// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/athena-go/athena/cluster"
)

// The files of docs/deployment.md need platforms that the tests do not have. So these tests only
// check that the files are well-formed, and that the command lines and variables in them are a
// valid configuration of this program.

// unresolved matches the warning about a name that only the platform knows.
var unresolved = regexp.MustCompile(`(?m)^warning: \S+ is not resolved on this machine: .*\n`)

// checkConfig runs `athena config check` with these variables and arguments, and accepts no other
// warning, such as for an unknown variable.
func checkConfig(t *testing.T, env map[string]string, args ...string) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"config", "check"}, args...)...)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		cmd.Env = append(cmd.Env, name+"="+env[name])
	}
	out, err := cmd.CombinedOutput()
	out = unresolved.ReplaceAll(out, nil)
	if err != nil || !bytes.HasPrefix(out, []byte("no errors: ")) {
		t.Errorf("config check with %q %q: %v\n%s", cmd.Env, args, err, out)
	}
}

// place writes the files that a platform would mount, and returns the variables with their paths.
func place(t *testing.T, env map[string]string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	env = maps.Clone(env)
	env["ATHENA_DATA_DIR"] = filepath.Join(dir, "store")
	env["ATHENA_ADMIN"] = strings.Replace(env["ATHENA_ADMIN"], "unix:/data/", "unix:"+dir+"/", 1)
	for _, name := range []string{
		"ATHENA_SECRET_FILE", "ATHENA_OTHER_SECRET_FILE", "ATHENA_ADMIN_TOKEN_FILE"} {
		if env[name] == "" {
			continue
		}
		env[name] = filepath.Join(dir, name)
		if err := os.WriteFile(env[name], cluster.NewSecret(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return env
}

// TestDeployCompose checks that each service is one node of the cluster, with its own address and
// its own volume.
func TestDeployCompose(t *testing.T) {
	t.Parallel()
	var file struct {
		Services map[string]struct {
			Environment map[string]string
			Volumes     []string
			Grace       string `yaml:"stop_grace_period"`
			Secrets     []struct{ Source, Target string }
		}
		Secrets map[string]any
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(readExample(t, "examples/compose/compose.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	var advertised []string
	for name, s := range file.Services {
		env := s.Environment
		advertised = append(advertised, env["ATHENA_ADVERTISE"])
		if got := fmt.Sprint(len(file.Services)); env["ATHENA_SIZE"] != got {
			t.Errorf("%s: size %s, want a seat for each of the %s", name, env["ATHENA_SIZE"], got)
		}
		if len(s.Volumes) != 1 || s.Volumes[0] != name+":/data" || !has(file.Volumes, name) {
			t.Errorf("%s: volumes %q, want its own at /data", name, s.Volumes)
		}
		if len(s.Secrets) != 1 || s.Secrets[0].Target != env["ATHENA_SECRET_FILE"] ||
			!has(file.Secrets, s.Secrets[0].Source) || s.Grace == "" {
			t.Errorf("%s: secrets %v and grace %q, want the secret that it reads and time to leave",
				name, s.Secrets, s.Grace)
		}
		checkConfig(t, place(t, env))
	}
	slices.Sort(advertised)
	seeds := file.Services["n1"].Environment["ATHENA_SEEDS"]
	if got := strings.Join(advertised, ","); got != seeds {
		t.Errorf("advertised addresses %s, want the seeds %s", got, seeds)
	}
}

func has(m map[string]any, name string) bool {
	_, ok := m[name]
	return ok
}

// checkFileDecides checks that a command line overrides nothing in a configuration file.
func checkFileDecides(t *testing.T, text string, args []string) {
	t.Helper()
	var file map[string]any
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := run(t, append([]string{"config", "show", "-o", "json"}, args...)...)
	var shown []struct{ Key, From string }
	if err := json.Unmarshal([]byte(stdout), &shown); err != nil || code != 0 {
		t.Fatalf("config show: exit %d, %v\n%s", code, err, stderr)
	}
	decided := 0
	for _, s := range shown {
		if _, ok := file[s.Key]; ok && s.From == "file" {
			decided++
		} else if ok {
			t.Errorf("%s comes from a %s, want it from the file", s.Key, s.From)
		}
	}
	if decided != len(file) {
		t.Errorf("%d of the %d values in the file are in use", decided, len(file))
	}
}

// TestDeploySystemd checks that systemd accepts the unit, that this program accepts its command
// line, and that the whole configuration file is in effect, so that a reload can change the secret.
func TestDeploySystemd(t *testing.T) {
	t.Parallel()
	unit := string(readExample(t, "examples/systemd/athena.service"))
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/athena run (.*)$`)
	line := start.FindStringSubmatch(unit)
	if line == nil {
		t.Fatal("the unit does not run athena")
	}
	dir := t.TempDir()
	files := place(t, map[string]string{
		"ATHENA_SECRET_FILE": "secret", "ATHENA_ADMIN_TOKEN_FILE": "token",
	})
	config := filepath.Join(dir, "athena.yaml")
	// This is the released unit, with paths that exist on this machine.
	text := strings.NewReplacer("10.0.0.1:7070", "127.0.0.1:0", "10.0.0.", "127.0.0.",
		"/var/lib/athena", dir+"/data", "/etc/athena/secret", files["ATHENA_SECRET_FILE"],
		"/etc/athena/admin-token", files["ATHENA_ADMIN_TOKEN_FILE"]).
		Replace(string(readExample(t, "examples/athena.yaml")))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := strings.Fields(strings.ReplaceAll(line[1], "/etc/athena/athena.yaml", config))
	checkConfig(t, nil, args...)
	checkFileDecides(t, text, args)

	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed (Debian's systemd): the unit was not verified")
	}
	// systemd-analyze requires the program to exist.
	path := filepath.Join(dir, "athena.service")
	unit = strings.ReplaceAll(unit, "/usr/local/bin/athena", "/bin/true")
	// The comment of the unit has the line for a data-dir that is not in /var/lib.
	line = regexp.MustCompile(`(?m)^# (ReadWritePaths=\S*[^.\s])`).FindStringSubmatch(unit)
	if line == nil {
		t.Fatal("the unit does not describe a data-dir elsewhere")
	}
	stateDirectory := regexp.MustCompile(`(?m)^StateDirectory=.*\nStateDirectoryMode=.*$`)
	for _, text := range []string{stateDirectory.ReplaceAllString(unit, line[1]), unit} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(analyze, "verify", path).CombinedOutput()
		if err != nil || len(out) > 0 || stateDirectory.MatchString(text) != (text == unit) {
			t.Errorf("systemd-analyze verify: %v\n%s", err, out)
		}
	}
	// The threshold is in tenths of the exposure level; systemd 252 gives 1.5, "OK".
	security := exec.Command(analyze, "security", "--offline=yes", "--threshold=20", path)
	if out, err := security.CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}
