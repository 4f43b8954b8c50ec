// SPDX-License-Identifier: Apache-2.0

package test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// listModules lists the folders of all modules of this repository, from its root.
func listModules(t *testing.T) (folders []string) {
	t.Helper()
	out, err := exec.Command("git", "-C", "..", "ls-files", "go.mod", "**/go.mod").Output()
	if err != nil {
		t.Skipf("git ls-files: %v: cannot list the modules", err)
	}
	for _, file := range strings.Fields(string(out)) {
		if !strings.Contains(file, "testdata/") {
			folders = append(folders, filepath.Dir(file))
		}
	}
	if len(folders) < 5 {
		t.Fatalf("found the modules %q, want those of contrib, examples, scripts and test too", folders)
	}
	return folders
}

// unreachable matches the errors of a go command that could not download a module.
var unreachable = regexp.MustCompile(`no such host|connection refused|i/o timeout|` +
	`network is unreachable|GOPROXY=off|server misbehaving`)

// goCommand runs the go command in a folder. It skips the test if there is no module proxy.
func goCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil && unreachable.Match(out) {
		t.Skipf("go %s: no module proxy: %s", strings.Join(args, " "), out)
	}
	if err != nil {
		t.Errorf("in %s, go %s: %v\n%s", dir, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestModulesAreTidy checks that each go.mod and go.sum names exactly what its module needs.
func TestModulesAreTidy(t *testing.T) {
	for _, folder := range listModules(t) {
		t.Run(folder, func(t *testing.T) {
			goCommand(t, filepath.Join("..", folder), "mod", "tidy", "-diff")
		})
	}
}

// heavyModules lists the modules that "make test" omits.
var heavyModules = []string{"contrib/kubernetes", "contrib/certmagic/caddy"}

var heavy = flag.Bool("heavy", false, "build modules whose dependencies compile for minutes too")

// TestHeavyModules checks that "make test" omits exactly the heavy modules.
func TestHeavyModules(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	want := "\nHEAVY     := " + strings.Join(heavyModules, "/ ") + "/\n"
	if !strings.Contains(string(makefile), want) {
		t.Errorf("the Makefile has other heavy modules, want the line %q", want)
	}
}

// requirement matches a line of go.mod that requires a module.
var requirement = regexp.MustCompile(`(?m)^\t\S+ v\S+`)

// TestAConsumerBuilds checks that a module outside this repository builds against each module of
// contrib with the replacements in README.md.
func TestAConsumerBuilds(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/athena-go/athena"
	for _, replace := range []string{
		"-replace " + module + "=../athena",
		"-replace " + module + "/contrib/NAME=../athena/contrib/NAME",
	} {
		if !strings.Contains(strings.Join(strings.Fields(string(readme)), " "), replace) {
			t.Errorf("README.md does not name %q, which the consumer of this test uses", replace)
		}
	}
	for _, folder := range listModules(t) {
		if filepath.Dir(folder) != "contrib" {
			continue
		}
		t.Run(folder, func(t *testing.T) {
			if slices.Contains(heavyModules, folder) && !*heavy {
				t.Skip("run with -heavy (make contrib): its dependencies compile for minutes")
			}
			dir := t.TempDir()
			goCommand(t, dir, "mod", "init", "example.org/consumer")
			goCommand(t, dir, "mod", "edit", "-replace", module+"="+root,
				"-replace", module+"/"+folder+"="+filepath.Join(root, folder))
			program := "package main\n\nimport _ \"" + module + "/" + folder + "\"\n\nfunc main() {}\n"
			if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			goCommand(t, dir, "mod", "tidy")
			goCommand(t, dir, "build", "-o", filepath.Join(dir, "consumer"), ".")
		})
	}
}

// TestScripts checks the syntax of every script, because no other test runs most of them.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("../scripts/*.sh")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		if out, err := exec.Command("sh", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}
