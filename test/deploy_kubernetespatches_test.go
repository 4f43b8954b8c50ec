// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readmePatches are the additions to the kustomization in the README.
type readmePatches struct{ volumes, grow, write, otherSecret, observers string }

// yamlBlocks returns the blocks of YAML in the README of the base without their indentation: the
// kustomization of an installation, and what other sections add to it.
func yamlBlocks(t *testing.T) (install string, more readmePatches) {
	t.Helper()
	text := readExample(t, kubernetesFolder+"/README.md")
	blocks := regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$").FindAllSubmatch(text, -1)
	places := []*string{&more.volumes, &install, &more.grow, &more.write, &more.otherSecret,
		&more.observers}
	if len(blocks) != len(places) {
		t.Fatalf("%d blocks of YAML in the README, want %d", len(blocks), len(places))
	}
	for i, b := range blocks {
		*places[i] = string(regexp.MustCompile("(?m)^"+string(b[1])).ReplaceAll(b[2], nil))
	}
	return install, more
}

// renderOverlay returns what kubectl makes of a kustomization with the base of this tree.
func renderOverlay(t *testing.T, kustomization string) map[string]manifest {
	t.Helper()
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("kubectl is not installed: the base was not rendered")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	base, err := filepath.Abs("../" + kubernetesFolder)
	if err != nil {
		t.Fatal(err)
	}
	base, err = filepath.Rel(dir, base) // kubectl refuses absolute paths
	if err != nil {
		t.Fatal(err)
	}
	remote := regexp.MustCompile(`\S*athena/` + kubernetesFolder + `\b`)
	if !remote.MatchString(kustomization) {
		t.Fatalf("no base in\n%s", kustomization)
	}
	kustomization = remote.ReplaceAllLiteralString(kustomization, base)
	path := filepath.Join(dir, "kustomization.yaml")
	if err := os.WriteFile(path, []byte(kustomization), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd := exec.Command(kubectl, "kustomize", dir)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("kubectl kustomize: %v\n%s", err, &stderr)
	}
	return readManifests(t, out)
}

// TestDeployKubernetesPatches checks what kubectl makes of the patches in the README of the base.
func TestDeployKubernetesPatches(t *testing.T) {
	t.Parallel()
	install, more := yamlBlocks(t)
	t.Run("other secret", func(t *testing.T) {
		all := renderOverlay(t, install+more.otherSecret)
		checkKubernetes(t, all)
		if podEnv(all["StatefulSet"], 0)["ATHENA_OTHER_SECRET_FILE"] != "/secret/other" {
			t.Error("the patch does not set ATHENA_OTHER_SECRET_FILE")
		}
	})
	t.Run("write requests", func(t *testing.T) {
		all := renderOverlay(t, install+more.write)
		checkKubernetes(t, all)
		if podEnv(all["StatefulSet"], 0)["ATHENA_ADMIN_WRITE"] != "true" {
			t.Error("the patch does not set ATHENA_ADMIN_WRITE")
		}
	})
	t.Run("volumes", func(t *testing.T) {
		all := renderOverlay(t, install+more.volumes)
		checkKubernetes(t, all)
		modes := all["StatefulSet"].Spec.Claims[0].Spec.Modes
		if !slices.Equal(modes, []string{"ReadWriteOnce"}) {
			t.Errorf("access modes %q, want ReadWriteOnce", modes)
		}
	})
	t.Run("observers", func(t *testing.T) {
		rules := renderOverlay(t, install+more.observers)["NetworkPolicy"].Spec.Ingress
		if n := len(kubernetesBase(t)["NetworkPolicy"].Spec.Ingress); len(rules) != n+1 ||
			rules[n].From[0]["podSelector"].Labels["athena-observer"] != "allowed" ||
			rules[n].Ports[0].Port != 7000 || rules[n].Ports[0].Protocol != "UDP" {
			t.Errorf("rules %+v, want one more, for observers at port 7000", rules)
		}
	})
	t.Run("grow", func(t *testing.T) { checkGrown(t, renderOverlay(t, install+more.grow)) })
}

// checkGrown checks that every pod of a larger set has the new size, changes that of its data
// directory before it starts, and keeps the seeds of the base.
func checkGrown(t *testing.T, all map[string]manifest) {
	t.Helper()
	checkSelectors(t, all)
	checkPod(t, all["StatefulSet"])
	set, base := all["StatefulSet"], kubernetesBase(t)["StatefulSet"]
	base.Metadata.Namespace = set.Metadata.Namespace
	spec, size := set.Spec.Template.Spec, fmt.Sprint(set.Spec.Replicas)
	seeds := podEnv(base, 0)["ATHENA_SEEDS"]
	for i := range set.Spec.Replicas {
		env := podEnv(set, i)
		if env["ATHENA_SIZE"] != size || env["ATHENA_SEEDS"] != seeds {
			t.Errorf("size %s and seeds %s, want %s and %s", env["ATHENA_SIZE"], env["ATHENA_SEEDS"],
				size, seeds)
		}
		checkConfig(t, place(t, env))
	}
	if len(spec.Init) != 1 {
		t.Fatalf("init containers %+v, want one", spec.Init)
	}
	first, node := spec.Init[0], spec.Containers[0]
	data := podEnv(set, 0)["ATHENA_DATA_DIR"]
	if !slices.Equal(first.Args, []string{"resize", "--to", size, "--data-dir", data}) ||
		first.Image != node.Image || !reflect.DeepEqual(first.Security, node.Security) ||
		len(first.Mounts) != 1 || first.Mounts[0] != node.Mounts[0] {
		t.Errorf("init container %+v, want resize --to %s, as the node otherwise: %+v",
			first, size, node)
	}
}
