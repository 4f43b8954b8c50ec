// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/athena-go/athena/cluster"
)

// TestProcessReleaseIsReproducible checks that builds of the same sources in two folders are
// identical. It uses the flags of scripts/release.sh except for the commit, which a copy of the
// sources lacks.
func TestProcessReleaseIsReproducible(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	var programs [2][]byte
	for i := range programs {
		dir := filepath.Join(t.TempDir(), "sources")
		if err := os.CopyFS(dir, os.DirFS("..")); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=",
			"-o", "program", "./cmd/athena")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var err error
		if programs[i], err = os.ReadFile(filepath.Join(dir, "program")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(programs[0], programs[1]) {
		t.Errorf("two builds differ: %d and %d bytes", len(programs[0]), len(programs[1]))
	}
}

// buildRelease runs scripts/release.sh for this platform in a copy of the sources, unpacks the
// archive and returns its folder.
func buildRelease(t *testing.T) (folder string) {
	t.Helper()
	for _, tool := range []string{"git", "tar", "gzip", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool, "is not installed: no release was built")
		}
	}
	dir := filepath.Join(t.TempDir(), "sources")
	if err := os.CopyFS(dir, os.DirFS("..")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	script := "git init -q . && git add -A && " +
		"git -c user.name=n -c user.email=e commit -qm sources && " +
		"scripts/release.sh " + runtime.GOOS + "/" + runtime.GOARCH +
		" && cd dist && sha256sum -c SHA256SUMS && tar -xzf *.tar.gz"
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	folders, err := filepath.Glob(filepath.Join(dir, "dist", "athena_*_"+runtime.GOARCH))
	if err != nil || len(folders) != 1 {
		t.Fatalf("got the folders %q, %v; want one", folders, err)
	}
	return folders[0]
}

// TestProcessReleaseArchive checks that the archive has the licence of every linked module, and
// that docs/deployment.md starts a node from its files alone.
func TestProcessReleaseArchive(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	archive := buildRelease(t)
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
		text, err := os.ReadFile(filepath.Join(archive, name))
		if err != nil {
			t.Error(err)
		}
		for _, m := range markdownLink.FindAllSubmatch(text, -1) {
			if !regexp.MustCompile(`^(https://|#)`).Match(m[1]) {
				t.Errorf("%s: the link to %s leads out of the archive", name, m[1])
			}
		}
	}
	info, err := buildinfo.ReadFile(filepath.Join(archive, "athena"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append([]string{"go"}, modulePaths(info.Deps)...) {
		found, err := filepath.Glob(filepath.Join(archive, "licenses", path, "LICENSE*"))
		if err != nil || len(found) == 0 {
			t.Errorf("the archive has no licence of %s", path)
			continue
		}
		if text, err := os.ReadFile(found[0]); err != nil || len(text) < 500 {
			t.Errorf("%s has %d bytes, %v; want a licence", found[0], len(text), err)
		}
	}
	host := t.TempDir()
	c := newNodes(t, 1)
	installUnit(t, archive, host, strings.NewReplacer(
		"size: 3", "size: 1", "- 10.0.0.2:7000", "", "- 10.0.0.3:7000", "", "10.0.0.1:7000", c.addrs[0],
		"/var/lib/athena", c.store(1), "10.0.0.1:7070", c.admin(1), "admin-token-file: ", "#",
		"/etc/athena", host+"/etc/athena", "#log-format: console", "log-format: json"))
	unit, err := os.ReadFile(filepath.Join(host, "etc/systemd/system/athena.service"))
	if err != nil {
		t.Fatal(err)
	}
	commands := func(key string) (all [][]string) {
		for _, line := range regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllSubmatch(unit, -1) {
			all = append(all, strings.Fields(onHost(host).Replace(" "+string(line[1]))))
		}
		return all
	}
	started := commands("ExecStart")[0]
	p := startCommand(t, nil, exec.Command(started[0], started[1:]...))
	c.settle(1)
	checkUnitReloads(t, p, host, commands("ExecReload"))
}

// checkUnitReloads checks that the commands by which a unit reloads refuse an invalid athena.yaml,
// and make a node use the new secret that a valid one names.
func checkUnitReloads(t *testing.T, p *process, host string, commands [][]string) {
	t.Helper()
	if want := []string{"/bin/kill", "-HUP", "$MAINPID"}; len(commands) != 2 ||
		!slices.Equal(commands[1], want) {
		t.Fatalf("reload runs %q, want a check and %q", commands, want)
	}
	path := filepath.Join(host, "etc/athena/athena.yaml")
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, text []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(host, "etc/athena", name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func() (string, error) {
		out, err := exec.Command(commands[0][0], commands[0][1:]...).CombinedOutput()
		return string(out), err
	}
	write("athena.yaml", append(file, "sizes: 1\n"...))
	if out, err := check(); err == nil {
		t.Errorf("the check accepted an unknown key: %s", out)
	}
	write("new", cluster.NewSecret())
	write("athena.yaml", bytes.ReplaceAll(file, []byte("/etc/athena/secret\n"),
		[]byte("/etc/athena/new\n")))
	if out, err := check(); err != nil {
		t.Errorf("the check beside the node: %v, %s", err, out)
	}
	p.reload(reloaded)
	if want := `"changed":"secret-file"`; !strings.Contains(p.stderr.String(), want) {
		t.Errorf("no line has %s", want)
	}
}

// onHost returns a replacer of absolute paths in a command by those below the root of a host.
func onHost(host string) *strings.Replacer {
	return strings.NewReplacer(" /etc/", " "+host+"/etc/", " /usr/", " "+host+"/usr/",
		" /var/", " "+host+"/var/")
}

// asUser replaces the parts of commands that need the user athena: here, the user of the test
// installs the unit and runs the node.
var asUser = strings.NewReplacer("-o athena -g athena ", "", "chown root:athena ", "test -f ",
	"chmod 0640", "chmod 0600", "runuser -u athena -- ", "")

// modulePaths returns the paths of modules.
func modulePaths(modules []*debug.Module) (paths []string) {
	for _, m := range modules {
		paths = append(paths, m.Path)
	}
	return paths
}

// installUnit runs the commands of docs/deployment.md in the folder of an archive, on a host whose
// root is a folder, except those that change the system. Where a comment says to edit athena.yaml,
// edit does.
func installUnit(t *testing.T, archive, host string, edit *strings.Replacer) {
	t.Helper()
	for _, dir := range []string{"etc/systemd/system", "etc/sysctl.d", "usr/local/bin", "var/lib"} {
		if err := os.MkdirAll(filepath.Join(host, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, section, _ := strings.Cut(string(readExample(t, "docs/deployment.md")), "\n## systemd\n")
	_, block, _ := strings.Cut(section, "\n```\n")
	block, _, _ = strings.Cut(block, "\n```\n")
	commands := strings.Split(block, "\n")
	if len(commands) < 10 {
		t.Fatalf("the page has %d commands, want those that install the unit", len(commands))
	}
	onSystem := regexp.MustCompile(`^(systemctl|useradd|sysctl|export) | athena members( +#.*)?$`)
	for _, text := range commands {
		if onSystem.MatchString(text) {
			continue
		}
		text = onHost(host).Replace(asUser.Replace(text))
		cmd := exec.Command("sh", "-c", text)
		cmd.Dir = archive
		cmd.Env = []string{"PATH=" + host + "/usr/local/bin:" + os.Getenv("PATH"), "HOME=" + host}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", text, err, out)
		}
		if strings.Contains(text, "then edit it") {
			path := filepath.Join(host, "etc/athena/athena.yaml")
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(edit.Replace(string(file))), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLicenseMissing checks that scripts/licenses.sh names a linked module without a licence.
func TestLicenseMissing(t *testing.T) {
	const module = "github.com/mattn/go-isatty"
	dir, alternative := t.TempDir(), filepath.Join(t.TempDir(), "go.mod")
	source := strings.TrimSpace(goCommand(t, "..", "list", "-m", "-f", "{{.Dir}}", module))
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "LICENSE")); err != nil {
		t.Fatal(err)
	}
	for name, more := range map[string]string{
		"go.mod": "\nreplace " + module + " => " + dir + "\n", "go.sum": "",
	} {
		file, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(filepath.Dir(alternative), name)
		if err := os.WriteFile(path, append(file, more...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("../scripts/licenses.sh", filepath.Join(t.TempDir(), "licenses"))
	cmd.Env = append(os.Environ(), "GOFLAGS=-modfile="+alternative)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), module+" has no licence") {
		t.Errorf("got %v, %s; want a failure that names %s", err, out, module)
	}
}
