// SPDX-License-Identifier: Apache-2.0

//go:build unix

package kubernetes_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/athena-go/athena/test/programs"
)

// TestElectorProgram runs the example of client-go for leader election as three processes without
// an API server. It kills the first leader and stops the second one.
func TestElectorProgram(t *testing.T) {
	t.Parallel()
	binary := programs.BuildProgram(t, "k8s.io/client-go/examples/leader-election", "lock.go",
		`	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
`, "",
		`	"k8s.io/client-go/tools/leaderelection/resourcelock"
`, "",
		`	client := clientset.NewForConfigOrDie(config)
`, "	_ = clientset.NewForConfigOrDie(config)\n",
		`	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{
			Name:      leaseLockName,
			Namespace: leaseLockNamespace,
		},
		Client: client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{
			Identity: id,
		},
	}
`, "	lock := newLock()\n	id = lock.Identity()\n",
		"leaderelection.RunOrDie(ctx, ", "runOrDie(ctx, lock, ")
	config := writeConfig(t, "http://192.0.2.1")
	p := programs.StartPrograms(t, func(i int) *exec.Cmd {
		return exec.Command(binary, "-kubeconfig", config, "-id", fmt.Sprint(i),
			"-lease-lock-name", "example", "-lease-lock-namespace", "default")
	})
	const works = "Controller loop..."
	first := p.NextWorker(0, 1, works)
	second := p.NextWorker(p.End(first, syscall.SIGKILL), 1, works)
	p.Start(first)
	if third := p.NextWorker(p.End(second, syscall.SIGTERM), 1, works); third == second {
		t.Errorf("process %d was stopped and continues", second)
	}
}

// TestManagerProgram runs the example of controller-runtime for built-in types, which sets a label
// of each ReplicaSet, as three processes. It kills the first leader and stops the second one.
func TestManagerProgram(t *testing.T) {
	t.Parallel()
	binary := programs.BuildProgram(t, "sigs.k8s.io/controller-runtime/examples/builtins", "lock.go",
		"	mgr, err := manager.New(config.GetConfigOrDie(), manager.Options{})",
		"	lock := newLock()\n	mgr, err := manager.New(config.GetConfigOrDie(), makeOptions(lock))",
		"mgr.Start(signals.SetupSignalHandler())", "lock.Run(signals.SetupSignalHandler(), mgr.Start)")
	api, url := newAPIServer(t)
	certs := t.TempDir()
	crt, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"tls.crt": crt, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(certs, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := programs.StartPrograms(t, func(i int) *exec.Cmd {
		cmd := exec.Command(binary)
		_, port, err := net.SplitHostPort(programs.FreeAddress(t))
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = []string{
			"KUBECONFIG=" + writeConfig(t, fmt.Sprint(url, "/", i)),
			"WEBHOOK_PORT=" + port, "CERT_DIR=" + certs,
		}
		return cmd
	})
	// labels creates a set, which the leader labels, and returns the leader.
	labels := func(name string, mark int) int {
		api.createSet(name)
		by := p.NextWorker(mark, 1, fmt.Sprintf(`"container name":%q`, name))
		// The label is another change, which the leader sees.
		p.NextWorker(mark, 2, fmt.Sprintf(`"container name":%q`, name))
		if got := api.updatesOf(name); !slices.Equal(got, []string{fmt.Sprint(by)}) {
			t.Errorf("clients %v have labelled %q, want %d", got, name, by)
		}
		return by
	}
	first := labels("a", 0)
	second := labels("b", p.End(first, syscall.SIGKILL))
	p.Start(first)
	if again := labels("c", p.Mark()); again != second {
		t.Errorf("process %d took the lead from process %d", again, second)
	}
	if third := labels("d", p.End(second, syscall.SIGTERM)); third == second {
		t.Errorf("process %d was stopped and continues", second)
	}
}

// writeConfig writes a configuration of clients of an API server, and returns its path.
func writeConfig(t *testing.T, server string) string {
	t.Helper()
	c := api.NewConfig()
	c.Clusters["c"] = &api.Cluster{Server: server}
	c.Contexts["c"] = &api.Context{Cluster: "c"}
	c.CurrentContext = "c"
	path := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	return path
}
