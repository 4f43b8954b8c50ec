// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDeployKubernetesProbes runs the command of a pod as a cluster of one, on loopback: its probes
// succeed, and it leaves in less than the grace period of the pod with the slowest timings.
func TestDeployKubernetesProbes(t *testing.T) {
	t.Parallel()
	set := kubernetesBase(t)["StatefulSet"]
	c := set.Spec.Template.Spec.Containers[0]
	addrs := freeAddresses(t, 2)
	env := place(t, podEnv(set, 0))
	maps.Copy(env, map[string]string{
		"ATHENA_ADDR": addrs[0], "ATHENA_ADVERTISE": addrs[0], "ATHENA_SEEDS": addrs[0],
		"ATHENA_ADMIN": addrs[1], "ATHENA_SIZE": "1", "ATHENA_PROFILE": "classic",
		"ATHENA_LOG_FORMAT": "json",
	})
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, c.Args...)
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	p := startCommand(t, nil, cmd)
	client := http.Client{Timeout: 3 * time.Second}
	for _, pr := range []struct {
		probe
		path string
	}{{c.Startup, "/livez"}, {c.Readiness, "/readyz?votes"}, {c.Liveness, "/livez"}} {
		if pr.HTTPGet.Path != pr.path || pr.HTTPGet.Port != "admin" {
			t.Errorf("probe %+v, want %s of the port admin", pr.HTTPGet, pr.path)
		}
		eventually(t, "200 of "+pr.HTTPGet.Path, func() bool {
			resp, err := client.Get("http://" + addrs[1] + pr.HTTPGet.Path)
			if err != nil {
				return false
			}
			resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		})
	}
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit %d after SIGTERM, want 0", code)
	}
	var leaving struct {
		Timeout int `json:"timeout_ms"`
	}
	for line := range strings.Lines(p.stderr.String() + p.stdout.String()) {
		if strings.Contains(line, "leaving the cluster") {
			if err := json.Unmarshal([]byte(line), &leaving); err != nil {
				t.Fatal(err)
			}
		}
	}
	grace := set.Spec.Template.Spec.Grace * 1000
	if leaving.Timeout == 0 || leaving.Timeout*5/4 > grace {
		t.Errorf("leaving may take %d ms, want a grace period a quarter longer; it is %d ms",
			leaving.Timeout, grace)
	}
}
