// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
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

// needBuilds skips a test with -short, because it builds whole programs with flags of their own.
func needBuilds(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it compiles for long (make builds)")
	}
}

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

// requirement matches the version of Athena that the go.mod of a nested module requires.
var requirement = regexp.MustCompile(`(?m)^(?:require )?\s*github\.com/athena-go/athena (v\S+)`)

// nextRelease returns the version that the nested modules require, which must be the same in all of
// them.
func nextRelease(t *testing.T) (version string) {
	t.Helper()
	for _, folder := range listModules(t) {
		mod, err := os.ReadFile(filepath.Join("..", folder, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		required := requirement.FindSubmatch(mod)
		if required == nil {
			continue
		}
		if got := string(required[1]); version == "" {
			version = got
		} else if got != version {
			t.Errorf("%s requires Athena %s, another module %s", folder, got, version)
		}
	}
	return version
}

// TestReadmeWithoutARelease runs the commands of README.md in a module outside of this repository,
// beside a clone: for package cluster, which its program imports, and for a module of contrib.
func TestReadmeWithoutARelease(t *testing.T) {
	dir := t.TempDir()
	consumer := filepath.Join(dir, "consumer")
	clone, err := filepath.Abs("..")
	if err == nil {
		err = errors.Join(os.Symlink(clone, filepath.Join(dir, "athena")), os.Mkdir(consumer, 0o700))
	}
	if err != nil {
		t.Fatal(err)
	}
	const adapter = "github.com/athena-go/athena/contrib/gocron"
	for name, text := range map[string]string{
		"main.go":  string(readExample(t, "examples/embed/main.go")),
		"other.go": "package main\n\nimport _ \"" + adapter + "\"\n",
	} {
		if err := os.WriteFile(filepath.Join(consumer, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	goCommand(t, consumer, "mod", "init", "example.org/consumer")
	commands := regexp.MustCompile("\n```\ngo (mod edit .*)\ngo (mod tidy)\n```\n").
		FindStringSubmatch(string(readExample(t, "README.md")))
	if commands == nil {
		t.Fatal("README.md does not add Athena to a module")
	}
	goCommand(t, consumer, strings.Fields(commands[1])...)
	ofAdapter := strings.ReplaceAll(commands[1], "athena-go/athena", "athena-go/athena/contrib/gocron")
	ofAdapter = strings.ReplaceAll(ofAdapter, "../athena", "../athena/contrib/gocron")
	goCommand(t, consumer, strings.Fields(ofAdapter)...)
	goCommand(t, consumer, strings.Fields(commands[2])...)
	goCommand(t, consumer, "list", "-deps", ".")
}

// tagSources commits the sources to a repository of its own, tags them as the next release and
// returns the path of the repository.
func tagSources(t *testing.T, version string) (repository string) {
	t.Helper()
	repository = filepath.Join(t.TempDir(), "repository.git")
	for _, command := range []string{
		"git init -q", "git add -A", "git commit -qm sources", "scripts/tag.sh " + version,
	} {
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "GIT_DIR="+repository, "GIT_WORK_TREE=.", "GOFLAGS=",
			"GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=e", "GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=e")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	return repository
}

// useRelease makes the go commands of this test fetch Athena from the repository, and other modules
// from those that are already downloaded. Its module cache is discarded with the test.
func useRelease(t *testing.T, repository string) {
	t.Helper()
	env := strings.Split(goCommand(t, ".", "env", "GOMODCACHE", "GOPROXY"), "\n")
	t.Setenv("GOPROXY", "file://"+filepath.ToSlash(env[0])+"/cache/download,"+env[1])
	t.Setenv("GOMODCACHE", filepath.Join(t.TempDir(), "modules"))
	t.Setenv("GOPRIVATE", "github.com/athena-go")
	t.Setenv("GOSUMDB", "off")
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_CONFIG_KEY_0", "url."+repository+".insteadOf")
	t.Setenv("GIT_CONFIG_VALUE_0", "https://github.com/athena-go/athena")
}

// TestAConsumerBuilds checks that once the next release is tagged, a module outside this repository
// builds every package of contrib and examples without a replacement, and "go install" the program.
func TestAConsumerBuilds(t *testing.T) {
	needBuilds(t)
	const module = "github.com/athena-go/athena"
	version := nextRelease(t)
	useRelease(t, tagSources(t, version))
	// Packages of the module cache are compiled once for all runs only with -trimpath.
	build := []string{"build", "-trimpath", "-o", os.DevNull}
	for _, folder := range listModules(t) {
		if !strings.HasPrefix(folder, "contrib/") && !strings.HasPrefix(folder, "examples/") {
			continue
		}
		t.Run(folder, func(t *testing.T) {
			if slices.Contains(heavyModules, folder) && !*heavy {
				t.Skip("run with -heavy (make contrib): its dependencies compile for minutes")
			}
			dir, packages := t.TempDir(), module+"/"+filepath.ToSlash(folder)+"/..."
			goCommand(t, dir, "mod", "init", "example.org/consumer")
			goCommand(t, dir, "get", "-modcacherw", packages+"@"+version)
			goCommand(t, dir, append(build, packages)...)
		})
	}
	t.Run("README.md", func(t *testing.T) { // its program
		dir := t.TempDir()
		program, err := os.ReadFile("../examples/embed/main.go")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "main.go"), program, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		goCommand(t, dir, "mod", "init", "example.org/consumer")
		goCommand(t, dir, "get", "-modcacherw", module+"/cluster@"+version)
		goCommand(t, dir, append(build, ".")...)
	})
	t.Run("cmd/athena", func(t *testing.T) {
		bin := t.TempDir()
		t.Setenv("GOBIN", bin)
		goCommand(t, bin, "install", "-modcacherw", "-trimpath", module+"/cmd/athena@"+version)
		out, err := exec.Command(filepath.Join(bin, "athena"), "version").Output()
		if err != nil || !strings.Contains(string(out), version) {
			t.Errorf("athena version: %v, %q, want %s in it", err, out, version)
		}
	})
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

func readExample(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
