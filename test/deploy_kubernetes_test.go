// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// kubernetesFolder is the folder of the base.
const kubernetesFolder = "deploy/kubernetes"

// labelSelector selects pods or namespaces.
type labelSelector struct {
	Labels map[string]string `yaml:"matchLabels"`
}

type envVariable struct {
	Name, Value string
	ValueFrom   struct {
		FieldRef struct {
			Path string `yaml:"fieldPath"`
		} `yaml:"fieldRef"`
	} `yaml:"valueFrom"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

type container struct {
	Image     string
	Args      []string
	Env       []envVariable
	Readiness probe `yaml:"readinessProbe"`
	Liveness  probe `yaml:"livenessProbe"`
	Startup   probe `yaml:"startupProbe"`
	Resources struct{ Limits struct{ Memory string } }
	Ports     []struct {
		Name, Protocol string
		Number         int `yaml:"containerPort"`
	}
	Security struct {
		Escalation   *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnly     bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities struct{ Drop []string }
	} `yaml:"securityContext"`
	Mounts []struct {
		Name     string
		Path     string `yaml:"mountPath"`
		ReadOnly bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type pod struct {
	Metadata struct{ Labels map[string]string }
	Spec     podSpec
}

type podSpec struct {
	Grace    int `yaml:"terminationGracePeriodSeconds"`
	Security struct {
		NonRoot bool   `yaml:"runAsNonRoot"`
		User    int    `yaml:"runAsUser"`
		Group   int    `yaml:"fsGroup"`
		Change  string `yaml:"fsGroupChangePolicy"`
	} `yaml:"securityContext"`
	Affinity struct {
		Anti struct {
			Required []struct {
				Key      string        `yaml:"topologyKey"`
				Selector labelSelector `yaml:"labelSelector"`
			} `yaml:"requiredDuringSchedulingIgnoredDuringExecution"`
		} `yaml:"podAntiAffinity"`
	}
	Containers []container
	Init       []container `yaml:"initContainers"`
	Links      *bool       `yaml:"enableServiceLinks"`
	Volumes    []struct {
		Name   string
		Secret struct {
			Name string `yaml:"secretName"`
			Mode int    `yaml:"defaultMode"`
		}
	}
}

// manifest is the part of a Kubernetes document that the tests check.
type manifest struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Spec     struct {
		ClusterIP   string `yaml:"clusterIP"`
		NotReady    bool   `yaml:"publishNotReadyAddresses"`
		ServiceName string `yaml:"serviceName"`
		Management  string `yaml:"podManagementPolicy"`
		Unavailable int    `yaml:"maxUnavailable"`
		Ports       []struct {
			Port     int
			Protocol string
		}
		Selector yaml.Node // of labels in a service, a labelSelector elsewhere
		Replicas int
		Pods     labelSelector `yaml:"podSelector"`
		Types    []string      `yaml:"policyTypes"`
		Ingress  []struct {
			From  []map[string]labelSelector
			Ports []struct {
				Port     int
				Protocol string
			}
		}
		Template  pod
		Unhealthy string `yaml:"unhealthyPodEvictionPolicy"`
		Claims    []struct {
			Metadata struct{ Name string }
			Spec     struct {
				Modes []string `yaml:"accessModes"`
			}
		} `yaml:"volumeClaimTemplates"`
	}
}

// readManifests returns the documents of a text, by kind.
func readManifests(t *testing.T, text []byte) map[string]manifest {
	t.Helper()
	all := map[string]manifest{}
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var m manifest
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if _, ok := all[m.Kind]; ok {
			t.Fatalf("two documents of kind %s", m.Kind)
		}
		all[m.Kind] = m
	}
}

// kubernetesBase returns the documents of the files of the base.
func kubernetesBase(t *testing.T) map[string]manifest {
	t.Helper()
	var base struct{ Resources []string }
	text := readExample(t, kubernetesFolder+"/kustomization.yaml")
	if err := yaml.Unmarshal(text, &base); err != nil {
		t.Fatal(err)
	}
	var files [][]byte
	for _, name := range base.Resources {
		files = append(files, readExample(t, filepath.Join(kubernetesFolder, name)))
	}
	return readManifests(t, bytes.Join(files, []byte("---\n")))
}

// podEnv returns the variables of pod i, as Kubernetes expands them.
func podEnv(set manifest, i int) map[string]string {
	fields := map[string]string{
		"metadata.name":      fmt.Sprint(set.Metadata.Name, "-", i),
		"metadata.namespace": set.Metadata.Namespace,
	}
	if set.Metadata.Namespace == "" {
		fields["metadata.namespace"] = "default"
	}
	env := map[string]string{}
	for _, e := range set.Spec.Template.Spec.Containers[0].Env {
		value := e.Value + fields[e.ValueFrom.FieldRef.Path]
		for name, known := range env { // only earlier variables are expanded
			value = strings.ReplaceAll(value, "$("+name+")", known)
		}
		env[e.Name] = value
	}
	return env
}

// TestDeployKubernetes checks the files of the base, and what kubectl makes of the kustomization in
// its README.
func TestDeployKubernetes(t *testing.T) {
	t.Parallel()
	install, _ := yamlBlocks(t)
	t.Run("files", func(t *testing.T) { checkKubernetes(t, kubernetesBase(t)) })
	t.Run("installed", func(t *testing.T) {
		all := renderOverlay(t, install)
		checkKubernetes(t, all)
		set := all["StatefulSet"]
		image := set.Spec.Template.Spec.Containers[0].Image
		if image != "registry.example.org/athena:COMMIT" {
			t.Errorf("image %s, want the one of the kustomization", image)
		}
		for kind, m := range all {
			if m.Metadata.Namespace != "orders" {
				t.Errorf("%s in namespace %q, want orders", kind, m.Metadata.Namespace)
			}
		}
	})
}

func checkKubernetes(t *testing.T, all map[string]manifest) {
	t.Helper()
	if kinds := slices.Sorted(maps.Keys(all)); !slices.Equal(kinds, []string{
		"NetworkPolicy", "PodDisruptionBudget", "Service", "StatefulSet"}) {
		t.Fatalf("documents of the kinds %q", kinds)
	}
	checkNodes(t, all["Service"], all["StatefulSet"])
	checkSelectors(t, all)
	checkNetworkPolicy(t, all["NetworkPolicy"], all["StatefulSet"])
	checkPod(t, all["StatefulSet"])
	checkSecret(t, all["StatefulSet"].Spec.Template.Spec)
}

// checkNodes checks that each pod is one node of the cluster, at its address from the headless
// service, with a valid configuration.
func checkNodes(t *testing.T, service, set manifest) {
	t.Helper()
	if service.Spec.ClusterIP != "None" || !service.Spec.NotReady ||
		set.Spec.ServiceName != service.Metadata.Name || set.Spec.Management != "Parallel" ||
		len(set.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("service %+v and set %+v: want a headless service that lists pods before they are "+
			"ready, pods that start together, and one container", service, set)
	}
	c := set.Spec.Template.Spec.Containers[0]
	if len(c.Args) != 1 || c.Args[0] != "guard" {
		t.Errorf("arguments %q, want the variables to configure athena guard", c.Args)
	}
	var advertised []string
	var seeds string
	for i := range set.Spec.Replicas {
		env := podEnv(set, i)
		if env["ATHENA_SIZE"] != fmt.Sprint(set.Spec.Replicas) {
			t.Errorf("size %s, want %d", env["ATHENA_SIZE"], set.Spec.Replicas)
		}
		advertised, seeds = append(advertised, env["ATHENA_ADVERTISE"]), env["ATHENA_SEEDS"]
		checkConfig(t, place(t, env))
	}
	if got := strings.Join(advertised, ","); got != seeds {
		t.Errorf("advertised addresses %s, want the seeds %s", got, seeds)
	}
	peers := "." + service.Metadata.Name + "." + podEnv(set, 0)["POD_NAMESPACE"] + ".svc.cluster.local"
	port := podEnv(set, 0)["ATHENA_ADDR"]
	if want := set.Metadata.Name + "-0" + peers + port; advertised[0] != want {
		t.Errorf("pod 0 advertises %s, want its name in the service: %s", advertised[0], want)
	}
	if len(service.Spec.Ports) != 1 || fmt.Sprint(":", service.Spec.Ports[0].Port) != port {
		t.Errorf("the service has ports %+v, want that of ATHENA_ADDR, %s", service.Spec.Ports, port)
	}
}

// checkSelectors checks that each document selects the pods of the set, and that a majority remains
// when as many pods as allowed are evicted.
func checkSelectors(t *testing.T, all map[string]manifest) {
	t.Helper()
	set, budget, service := all["StatefulSet"], all["PodDisruptionBudget"], all["Service"]
	labels := set.Spec.Template.Metadata.Labels
	var ofSet, ofBudget labelSelector
	var ofService map[string]string
	if err := errors.Join(set.Spec.Selector.Decode(&ofSet), budget.Spec.Selector.Decode(&ofBudget),
		service.Spec.Selector.Decode(&ofService)); err != nil {
		t.Fatal(err)
	}
	selected := map[string]map[string]string{
		"StatefulSet": ofSet.Labels, "PodDisruptionBudget": ofBudget.Labels, "Service": ofService,
		"NetworkPolicy": all["NetworkPolicy"].Spec.Pods.Labels,
	}
	anti := set.Spec.Template.Spec.Affinity.Anti.Required
	if len(anti) != 1 || anti[0].Key != "kubernetes.io/hostname" {
		t.Errorf("anti-affinity %+v, want one pod on each host", anti)
	} else {
		selected["anti-affinity"] = anti[0].Selector.Labels
	}
	for name, got := range selected {
		if len(labels) == 0 || !maps.Equal(got, labels) {
			t.Errorf("%s selects pods with %v, want %v", name, got, labels)
		}
	}
	if budget.Spec.Unhealthy != "AlwaysAllow" {
		t.Errorf("eviction policy %q, want AlwaysAllow: a pod that is not ready does not vote",
			budget.Spec.Unhealthy)
	}
	n, out := set.Spec.Replicas, budget.Spec.Unavailable
	if out != 1 || n-out <= n/2 {
		t.Errorf("%d of %d pods may be unavailable, want 1 and a majority to remain", out, n)
	}
}

// checkNetworkPolicy checks that each port of a pod accepts packets only from other nodes or from
// pods with a label that no node has.
func checkNetworkPolicy(t *testing.T, policy, set manifest) {
	t.Helper()
	pods := set.Spec.Template
	if !slices.Equal(policy.Spec.Types, []string{"Ingress"}) {
		t.Fatalf("the policy is for %q, want Ingress", policy.Spec.Types)
	}
	open := map[string]string{} // the labels of pods, by port and protocol
	for _, rule := range policy.Spec.Ingress {
		if len(rule.From) != 1 || len(rule.From[0]["podSelector"].Labels) == 0 {
			t.Fatalf("rule %+v: want ports for one kind of pods", rule)
		}
		labels := rule.From[0]["podSelector"].Labels
		if _, everywhere := rule.From[0]["namespaceSelector"]; everywhere ==
			maps.Equal(labels, pods.Metadata.Labels) {
			t.Errorf("rule %+v: want nodes of this namespace, and others of any", rule)
		}
		for _, p := range rule.Ports {
			open[fmt.Sprint(":", p.Port, " ", p.Protocol)] = fmt.Sprint(labels)
		}
	}
	env, nodes := podEnv(set, 0), fmt.Sprint(pods.Metadata.Labels)
	want := map[string]string{
		env["ATHENA_ADDR"] + " UDP":  nodes, // QUIC
		env["ATHENA_ADDR"] + " TCP":  nodes, // ATHENA_TRANSPORT=tls
		env["ATHENA_ADMIN"] + " TCP": fmt.Sprint(map[string]string{"athena-admin": "allowed"}),
	}
	if !maps.Equal(open, want) {
		t.Errorf("open to labels by port: %v, want %v", open, want)
	}
}

// checkPod checks the ports, the files and the rights of a pod, and its memory.
func checkPod(t *testing.T, set manifest) {
	t.Helper()
	spec, env := set.Spec.Template.Spec, podEnv(set, 0)
	c := spec.Containers[0]
	if spec.Links == nil || *spec.Links {
		t.Error("other services set variables of the pod; they may begin with ATHENA_")
	}
	ports := map[string]string{}
	for _, p := range c.Ports {
		ports[p.Name] = fmt.Sprint(":", p.Number, " ", p.Protocol)
	}
	if want := map[string]string{
		"cluster": env["ATHENA_ADDR"] + " UDP", "admin": env["ATHENA_ADMIN"] + " TCP",
	}; !maps.Equal(ports, want) {
		t.Errorf("ports %v, want %v", ports, want)
	}
	image := fmt.Sprintf("\nUSER %d:", spec.Security.User)
	if !spec.Security.NonRoot || !bytes.Contains(readExample(t, "Dockerfile"), []byte(image)) {
		t.Errorf("a pod runs as %+v, want the user of the Dockerfile", spec.Security)
	}
	if s := c.Security; s.Escalation == nil || *s.Escalation || !s.ReadOnly ||
		!slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("security context %+v: want no escalation, a read-only root and no capability", s)
	}
	readOnly := map[string]bool{} // by the folder at which a volume is mounted
	for _, m := range c.Mounts {
		readOnly[m.Path] = m.ReadOnly
		if claimed := len(set.Spec.Claims) == 1 && set.Spec.Claims[0].Metadata.Name == m.Name; claimed ==
			m.ReadOnly {
			t.Errorf("volume %s: read-only is %v, want it for all but the claim", m.Name, m.ReadOnly)
		}
	}
	for name, value := range env {
		if only, ok := readOnly[filepath.Dir(value)]; filepath.IsAbs(value) &&
			(!ok || only != strings.HasSuffix(name, "_FILE")) {
			t.Errorf("%s=%s is not in a volume, or in the wrong one: %v", name, value, readOnly)
		}
	}
	checkMemory(t, c.Resources.Limits.Memory, env["GOMEMLIMIT"], set.Spec.Replicas)
}

// checkSecret checks that a pod mounts the secret that the README creates, readable by its group
// only, and that Kubernetes does not make the data directory writable to the group at each start. A
// node refuses either.
func checkSecret(t *testing.T, spec podSpec) {
	t.Helper()
	readme := string(readExample(t, kubernetesFolder+"/README.md"))
	if len(spec.Volumes) != 1 {
		t.Fatalf("volumes %+v, want the secret", spec.Volumes)
	}
	v := spec.Volumes[0].Secret
	if !strings.Contains(readme, "create secret generic "+v.Name+" --from-file=secret") {
		t.Errorf("the README does not create the secret %q", v.Name)
	}
	if v.Mode != 0o440 || spec.Security.Group == 0 || spec.Security.Change != "OnRootMismatch" {
		t.Errorf("secret of mode %#o, security %+v: want 0440, a group for volumes, and no change of "+
			"the modes of files that exist", v.Mode, spec.Security)
	}
}

// checkMemory checks two limits. Hostile peers can occupy at most three quarters of GOMEMLIMIT
// (docs/security.md); the rest is for the node itself. GOMEMLIMIT is at most four fifths of the pod
// limit; the rest is for memory that Go does not count.
func checkMemory(t *testing.T, podLimit, goLimit string, size int) {
	t.Helper()
	mebibytes := func(pattern, name, text string) (of []int) {
		found := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("%s: no match for %s", name, pattern)
		}
		for _, digits := range found[1:] {
			n, err := strconv.Atoi(digits)
			if err != nil {
				t.Fatal(err)
			}
			of = append(of, n)
		}
		return of
	}
	kept := mebibytes(`N = 3; for each further member \| (\d+) MiB; (\d+) MiB`,
		"docs/security.md", string(readExample(t, "docs/security.md")))
	heap := mebibytes(`^(\d+)MiB$`, "GOMEMLIMIT", goLimit)[0]
	pod := mebibytes(`^(\d+)Mi$`, "the limit of the pod", podLimit)[0]
	if peers := kept[0] + (size-3)*kept[1]; peers > heap*3/4 || heap > pod*4/5 {
		t.Errorf("peers can take %d MiB, GOMEMLIMIT is %d MiB, the limit of the pod %d MiB: want each "+
			"below the next, by a quarter and a fifth of that", peers, heap, pod)
	}
}
