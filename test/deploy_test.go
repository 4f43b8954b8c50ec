// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/athena-go/athena/cluster"
)

// The files of docs/deployment.md need platforms that the tests do not have. So these tests only
// check that the files are well-formed, and that the command lines and variables in them are a
// valid configuration of this program.

// checkConfig runs `athena config check` with these variables and arguments.
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
	if out, err := cmd.CombinedOutput(); err != nil {
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
	for _, name := range []string{"ATHENA_SECRET_FILE", "ATHENA_ADMIN_TOKEN_FILE"} {
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

func readExample(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestDeployCompose checks that each service is one node of the cluster, with its own address and
// its own volume.
func TestDeployCompose(t *testing.T) {
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

// manifest is the part of a Kubernetes document that the test checks.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		ClusterIP   string `yaml:"clusterIP"`
		NotReady    bool   `yaml:"publishNotReadyAddresses"`
		ServiceName string `yaml:"serviceName"`
		Replicas    int
		Pods        labelSelector `yaml:"podSelector"`
		Types       []string      `yaml:"policyTypes"`
		Ingress     []struct {
			From  []map[string]labelSelector
			Ports []struct{ Port, Protocol string }
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Containers []struct {
					Args []string
					Env  []struct {
						Name, Value string
						ValueFrom   struct {
							FieldRef struct {
								Path string `yaml:"fieldPath"`
							} `yaml:"fieldRef"`
						} `yaml:"valueFrom"`
					}
					Resources                                   struct{ Limits struct{ Memory string } }
					Ports                                       []struct{ Name, Protocol string }
					ReadinessProbe, LivenessProbe, StartupProbe struct {
						HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
					}
				}
			}
		}
	}
}

// kubernetesExample returns the documents of the example, by kind.
func kubernetesExample(t *testing.T) map[string]manifest {
	t.Helper()
	text := readExample(t, "examples/kubernetes/athena.yaml")
	// The decoder expects lower-case keys, but these are in camel case.
	camel := regexp.MustCompile(`(readiness|liveness|startup)Probe`)
	text = camel.ReplaceAll(text, []byte("${1}probe"))
	all := map[string]manifest{}
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var m manifest
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all[m.Kind] = m
	}
	return all
}

// labelSelector selects pods or namespaces.
type labelSelector struct {
	Labels map[string]string `yaml:"matchLabels"`
}

// TestDeployNetworkPolicy checks that each port of a pod accepts packets only from other nodes or
// from pods with a label that no node has.
func TestDeployNetworkPolicy(t *testing.T) {
	all := kubernetesExample(t)
	policy, pods := all["NetworkPolicy"].Spec, all["StatefulSet"].Spec.Template
	if !maps.Equal(policy.Pods.Labels, pods.Metadata.Labels) ||
		!slices.Equal(policy.Types, []string{"Ingress"}) {
		t.Fatalf("the policy is for pods %v and %q, want those of the set and Ingress",
			policy.Pods.Labels, policy.Types)
	}
	open := map[string]map[string]string{} // the labels of pods, by port and protocol
	for _, rule := range policy.Ingress {
		if len(rule.From) != 1 || len(rule.Ports) != 1 || len(rule.From[0]["podSelector"].Labels) == 0 {
			t.Fatalf("rule %+v: want one port for one kind of pods", rule)
		}
		open[rule.Ports[0].Port+" "+rule.Ports[0].Protocol] = rule.From[0]["podSelector"].Labels
	}
	for _, port := range pods.Spec.Containers[0].Ports {
		from := open[port.Name+" "+port.Protocol]
		if from == nil || maps.Equal(from, pods.Metadata.Labels) != (port.Name == "cluster") {
			t.Errorf("port %s: open to pods with %v, want other nodes for the cluster's port only",
				port.Name, from)
		}
		delete(open, port.Name+" "+port.Protocol)
	}
	if len(open) > 0 {
		t.Errorf("open ports that no pod has: %v", open)
	}
}

// TestDeployKubernetes checks that each pod is one node of the cluster, at its address from the
// headless service, and that its probes use endpoints of a node.
func TestDeployKubernetes(t *testing.T) {
	all := kubernetesExample(t)
	service, set := all["Service"], all["StatefulSet"]
	if service.Spec.ClusterIP != "None" || !service.Spec.NotReady ||
		set.Spec.ServiceName != service.Metadata.Name || len(set.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("service %+v and set %+v: want a headless service that lists pods before they are "+
			"ready, and one container", service, set)
	}
	c := set.Spec.Template.Spec.Containers[0]
	for path, probe := range map[string]string{
		"/readyz?votes": c.ReadinessProbe.HTTPGet.Path, "/livez": c.LivenessProbe.HTTPGet.Path,
	} {
		if probe != path || c.ReadinessProbe.HTTPGet.Port != "admin" {
			t.Errorf("a probe requests %q, want %q at the port admin", probe, path)
		}
	}
	checkMemory(t, c.Resources.Limits.Memory, set.Spec.Replicas,
		readExample(t, "examples/kubernetes/athena.yaml"))
	var advertised []string
	var seeds string
	for i := range set.Spec.Replicas {
		pod := map[string]string{
			"metadata.name": fmt.Sprint(set.Metadata.Name, "-", i), "metadata.namespace": "default",
		}
		env := map[string]string{}
		for _, e := range c.Env {
			value := e.Value + pod[e.ValueFrom.FieldRef.Path]
			for name, known := range env { // earlier variables are expanded, as on the platform
				value = strings.ReplaceAll(value, "$("+name+")", known)
			}
			env[e.Name] = value
		}
		if env["ATHENA_SIZE"] != fmt.Sprint(set.Spec.Replicas) {
			t.Errorf("size %s, want %d", env["ATHENA_SIZE"], set.Spec.Replicas)
		}
		advertised, seeds = append(advertised, env["ATHENA_ADVERTISE"]), env["ATHENA_SEEDS"]
		checkConfig(t, place(t, env), c.Args[1:]...)
	}
	if got := strings.Join(advertised, ","); got != seeds {
		t.Errorf("advertised addresses %s, want the seeds %s", got, seeds)
	}
}

// checkMemory checks two limits. Hostile peers can occupy at most three quarters of GOMEMLIMIT
// (docs/security.md); the rest is for the node itself. GOMEMLIMIT is at most four fifths of the pod
// limit; the rest is for memory that Go does not count.
func checkMemory(t *testing.T, limit string, size int, example []byte) {
	t.Helper()
	mebibytes := func(pattern, name string, text []byte) (of []int) {
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s: no match for %s", name, pattern)
		}
		for _, digits := range found[1:] {
			n, err := strconv.Atoi(string(digits))
			if err != nil {
				t.Fatal(err)
			}
			of = append(of, n)
		}
		return of
	}
	kept := mebibytes(`N = 3; for each further member \| (\d+) MiB; (\d+) MiB`,
		"docs/security.md", readExample(t, "docs/security.md"))
	heap := mebibytes(`GOMEMLIMIT, value: (\d+)MiB`, "the example", example)[0]
	pod := mebibytes(`^(\d+)Mi$`, "the limit of the pod", []byte(limit))[0]
	if peers := kept[0] + (size-3)*kept[1]; peers > heap*3/4 || heap > pod*4/5 {
		t.Errorf("peers can take %d MiB, GOMEMLIMIT is %d MiB, the limit of the pod %d MiB: want each "+
			"below the next, by a quarter and a fifth of that", peers, heap, pod)
	}
}

// checkFileDecides checks that a command line overrides nothing in a configuration file except the
// secret.
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
		} else if ok && s.Key != "secret-file" {
			t.Errorf("%s comes from a %s, want it from the file", s.Key, s.From)
		}
	}
	if want := len(file) - 1; decided != want {
		t.Errorf("%d of the %d values in the file, not counting the secret, are in use", decided, want)
	}
}

// TestDeploySystemd checks that systemd accepts the unit, that this program accepts its command
// line, and that the configuration file is in effect.
func TestDeploySystemd(t *testing.T) {
	unit := string(readExample(t, "examples/systemd/athena.service"))
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/athena run (.*)$`)
	line := start.FindStringSubmatch(unit)
	if line == nil {
		t.Fatal("the unit does not run athena")
	}
	dir := t.TempDir()
	secret := place(t, map[string]string{"ATHENA_SECRET_FILE": "secret"})["ATHENA_SECRET_FILE"]
	config := filepath.Join(dir, "athena.yaml")
	// This is the released unit, with paths that exist on this machine.
	text := strings.NewReplacer("10.0.0.1:7000", "127.0.0.1:7001", "/var/lib/athena", dir+"/data",
		"127.0.0.1:7070", "127.0.0.1:0").Replace(string(readExample(t, "examples/athena.yaml")))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := strings.Fields(strings.NewReplacer("/etc/athena/athena.yaml", config, "%d/secret", secret,
		"%S", dir, "%t", dir).Replace(line[1]))
	checkConfig(t, nil, args...)
	checkFileDecides(t, text, args)

	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed (Debian's systemd): the unit was not verified")
	}
	// systemd-analyze requires the program to exist.
	path := filepath.Join(dir, "athena.service")
	unit = strings.ReplaceAll(unit, "/usr/local/bin/athena", "/bin/true")
	if err := os.WriteFile(path, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// The threshold is in tenths of the exposure level; systemd 252 gives 1.5, "OK".
	security := exec.Command(analyze, "security", "--offline=yes", "--threshold=20", path)
	if out, err := security.CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}
