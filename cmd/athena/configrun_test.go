// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/simnet"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/member"
)

// scene is a directory that contains the files of a valid configuration.
type scene struct {
	t   *testing.T
	dir string // accessible to all users
}

func newScene(t *testing.T) scene {
	t.Helper()
	dir, err := os.MkdirTemp("", "athena")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s := scene{t, dir}
	s.chmod(".", 0o755)
	s.write("file", "")
	s.write("secret", soundSecret)
	return s
}

func (s scene) path(name string) string { return filepath.Join(s.dir, name) }

func (s scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s scene) write(name, text string) {
	s.t.Helper()
	s.must(os.WriteFile(s.path(name), []byte(text), 0o600))
}

func (s scene) chmod(name string, mode fs.FileMode) {
	s.t.Helper()
	s.must(os.Chmod(s.path(name), mode))
}

// store creates the data directory of a cluster node.
func (s scene) store(cluster string) {
	s.t.Helper()
	made, release := usedStore(s.t, store.Origin{
		Cluster: cluster, Size: 3, Address: member.Address{Host: known, Port: 7001},
	})
	release()
	s.must(os.Rename(made, s.path("data")))
}

// certificates creates the TLS files of a node for a host.
func (s scene) certificates(host string) {
	pki := simnet.NewAuthority(s.t)
	s.must(os.Rename(pki.Path, s.path("ca")))
	simnet.WritePair(s.t, pki.Issue(host, nil), s.path("cert"), s.path("key"))
}

// tree lists all readable paths with their mode and size.
func (s scene) tree() (all []string) {
	s.t.Helper()
	s.must(filepath.WalkDir(s.dir, func(path string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		info, err := os.Lstat(path)
		all = append(all, fmt.Sprint(path, info.Mode(), info.Size()))
		return err
	}))
	return all
}

// refusal is a case of a faulty configuration. In its texts, @ stands for the directory of the
// scene.
type refusal struct {
	name string
	// lines replace the lines of base with the same keys; other lines are appended. "-key" removes
	// a line.
	lines []string
	harm  func(s scene)
	// want is the expected standard error; an ellipsis matches any text.
	want string
	code int // exit code of run; config check always exits with ExitUsage
}

// base is a valid configuration file.
const base = `addr: 127.0.0.1:7001
size: 3
seeds: [127.0.0.1:7001, 127.0.0.1:7002]
secret-file: @/secret
data-dir: @/data
admin: 127.0.0.1:0
`

// file writes the configuration file of a case.
func (s scene) file(r refusal) string {
	lines := strings.Split(strings.TrimSpace(base), "\n")
	for _, line := range r.lines {
		key, _, _ := strings.Cut(strings.TrimPrefix(line, "-"), ":")
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, key+":") })
		if !strings.HasPrefix(line, "-") {
			lines = append(lines, line)
		}
	}
	s.write("athena.yaml", strings.ReplaceAll(strings.Join(lines, "\n"), "@", s.dir))
	return s.path("athena.yaml")
}

const known = "127.0.0.1"

var machineFaults = []refusal{
	{"damaged key", nil, func(s scene) {
		s.store("athena")
		s.write("data/reset.key", "x\n")
	}, "@/athena.yaml:5: data-dir @/data: @/data/reset.key: store: corrupt file: …", cli.ExitFailed},
	{"key that others can read", nil, func(s scene) {
		s.must(os.Mkdir(s.path("data"), 0o700))
		s.write("data/reset.key", strings.Repeat("0", 64)+"\n")
		s.chmod("data/reset.key", 0o644)
	}, "@/athena.yaml:5: data-dir @/data: store: accessible to users other than its owner: " +
		"@/data/reset.key has mode 0644; run chmod 0600 …", cli.ExitUsage},
	{"state that others can read", nil, func(s scene) {
		s.store("athena")
		s.chmod("data/athena.state", 0o644)
	}, "@/athena.yaml:5: data-dir @/data: store: accessible to users other than its owner: " +
		"@/data/athena.state has mode 0644; run chmod 0600 …", cli.ExitUsage},
	{"damaged state", nil, func(s scene) {
		s.must(os.Mkdir(s.path("data"), 0o700))
		s.write("data/athena.state", "x")
	}, "@/athena.yaml:5: data-dir @/data: @/data/athena.state: store: corrupt file: …",
		cli.ExitFailed},
	{"store of another cluster", nil, func(s scene) {
		s.store("other")
	}, "the store was made for another configuration: @/data\n--cluster \"athena\": the store was " +
		"made for \"other\": …", cli.ExitUsage},
	{"data directory that others can write", nil, func(s scene) {
		s.must(os.Mkdir(s.path("data"), 0o700))
		s.chmod("data", 0o777)
	}, "@/athena.yaml:5: data-dir @/data: store: accessible to users other than its owner: " +
		"@/data has mode …",
		cli.ExitUsage},
	{"data directory is a file", []string{"data-dir: @/file"}, nil,
		"@/athena.yaml:6: data-dir @/file: store: @/file is not a directory: use another path",
		cli.ExitFailed},
	{"data directory below a file", []string{"data-dir: @/file/a/b"}, nil,
		"@/athena.yaml:6: data-dir @/file/a/b: store: @/file is not a directory: use another path",
		cli.ExitFailed},
	{"data directory is a link to nothing", nil, func(s scene) {
		s.must(os.Symlink(s.path("nothing"), s.path("data")))
	}, "@/athena.yaml:5: data-dir @/data: store: @/data is a dangling symbolic link: " +
		"create its target, or use another path", cli.ExitFailed},
	{"lock is a folder", nil, func(s scene) {
		s.must(os.MkdirAll(s.path("data/athena.lock"), 0o700))
	}, "@/athena.yaml:5: data-dir @/data: store: @/data/athena.lock is not a regular file",
		cli.ExitFailed},

	{"traces below a file", []string{"flight-recorder: @/file/traces"}, nil,
		"@/athena.yaml:7: flight-recorder: @/file is not a directory: use another path", cli.ExitFailed},
	{"traces into a file", []string{"flight-recorder: @/file"}, nil,
		"@/athena.yaml:7: flight-recorder: @/file is not a directory: use another path", cli.ExitFailed},

	{"address of another machine", []string{"addr: 192.0.2.1:7001", "seeds: 192.0.2.1:7001"}, nil,
		"@/athena.yaml:5: addr 192.0.2.1:7001: not an address of this machine: listen on 0.0.0.0 and " +
			"set --advertise …", cli.ExitFailed},
	{"name of nobody", []string{"addr: nobody.onion:7001", "seeds: nobody.onion:7001"}, nil,
		"@/athena.yaml:5: addr nobody.onion:7001: not an address of this machine: listen on …",
		cli.ExitFailed},

	{"admin at another machine", []string{"admin: 192.0.2.1:7070", "admin-token-file: @/secret"}, nil,
		"@/athena.yaml:6: admin: admin: listen on 192.0.2.1:7070: bind: cannot assign requested " +
			"address: choose an address of this machine", cli.ExitFailed},
	{"admin at the name of nobody", []string{"admin: nobody.onion:7070",
		"admin-token-file: @/secret"}, nil,
		"@/athena.yaml:6: admin: admin: listen on nobody.onion:7070: address nobody.onion: no " +
			"suitable address found: choose an address of this machine", cli.ExitFailed},
	{"admin in no folder", []string{"admin: unix:@/none/admin"}, nil,
		"@/athena.yaml:6: admin: admin: listen on unix:@/none/admin: @/none is not a directory: create " +
			"it or choose another path", cli.ExitFailed},
	{"admin is a file", []string{"admin: unix:@/file"}, nil, "@/athena.yaml:6: admin: admin: listen " +
		"on unix:@/file: the file exists and is not a socket: choose another path", cli.ExitFailed},
	{"admin open to all", []string{"admin: 0.0.0.0:0"}, nil,
		"@/athena.yaml:6: admin: admin: invalid address \"0.0.0.0:0\": an address …",
		cli.ExitUsage},

	{"no secret file", []string{"secret-file: @/none"}, nil,
		"@/athena.yaml:6: secret-file: open @/none: no such file or directory: copy it …", cli.ExitUsage},
	{"secret that others can read", nil, func(s scene) { s.chmod("secret", 0o644) },
		"@/athena.yaml:4: secret-file: @/secret: mode 0644 …", cli.ExitUsage},
	{"short secret", nil, func(s scene) { s.write("secret", "short") },
		"@/athena.yaml:4: secret-file: @/secret: is text but not base64: such a password can …",
		cli.ExitUsage},
	{"short other secret", []string{"other-secret-file: @/file"}, nil,
		"@/athena.yaml:7: other-secret-file: @/file: has at most 0 random …", cli.ExitUsage},
	{"no token file", []string{"admin-token-file: @/none"}, nil,
		"@/athena.yaml:7: admin-token-file: stat @/none: no such file or directory: create it with: …",
		cli.ExitUsage},
	{"misspelled secret file", []string{"-secret-file", "secret_fil: @/secret"}, nil,
		"@/athena.yaml:6:1: unknown key \"secret_fil\"; did you mean secret-file?", cli.ExitUsage},
	{"misspelled and given", []string{"secret_fil: @/secret", "secret-file: @/none"}, nil,
		"@/athena.yaml:6:1: unknown key \"secret_fil\"; did you mean secret-file?\n" +
			"@/athena.yaml:7: secret-file: open @/none: …", cli.ExitUsage},
	{"misspelled insecure", []string{"-secret-file", "insecur: true"}, nil,
		"@/athena.yaml:6:1: unknown key \"insecur\"; did you mean insecure?", cli.ExitUsage},
	{"not a boolean", []string{"-secret-file", "insecure: maybe"}, nil,
		"@/athena.yaml:6:11: insecure \"maybe\": must be true or false", cli.ExitUsage},

	{"certificate of another host", []string{"-secret-file", "tls-ca: @/ca", "tls-cert: @/cert",
		"tls-key: @/key"}, func(s scene) { s.certificates("10.0.0.1") },
		"@/athena.yaml:7: tls-cert @/cert: no node would accept it from this node: …", cli.ExitUsage},
	{"key that others can read", []string{"-secret-file", "tls-ca: @/ca", "tls-cert: @/cert",
		"tls-key: @/key"}, func(s scene) { s.certificates(known); s.chmod("key", 0o644) },
		"@/athena.yaml:8: tls-key: @/key: mode 0644 …", cli.ExitUsage},
	{"no authorities", []string{"-secret-file", "tls-ca: @/none", "tls-cert: @/cert",
		"tls-key: @/key"}, func(s scene) { s.certificates(known) },
		"@/athena.yaml:6: tls-ca: open @/none: no such file or directory", cli.ExitUsage},
	{"faults of two kinds", []string{"size: three", "flight-recorder: @/file"}, nil,
		"@/athena.yaml:6:7: size \"three\": must be an integer\n" +
			"@/athena.yaml:7: flight-recorder: @/file is not a directory: use another path", cli.ExitUsage},
	{"two of the machine", []string{"addr: 192.0.2.1:7001", "seeds: 192.0.2.1:7001",
		"data-dir: @/file"}, nil, "@/athena.yaml:4: addr 192.0.2.1:7001: not an address …" +
		"\n@/athena.yaml:6: data-dir @/file: …", cli.ExitFailed},
}

// TestRunAndCheckAgree checks that athena run and config check report the same faults, each once,
// and change no file.
func TestRunAndCheckAgree(t *testing.T) {
	for _, r := range machineFaults {
		t.Run(r.name, func(t *testing.T) {
			s := newScene(t)
			path := s.file(r)
			if r.harm != nil {
				r.harm(s)
			}
			before := s.tree()
			s.wantRefusal(r, path)
			s.wantUnchanged(before)
		})
	}
}

// wantRefusal checks that both verbs report the fault of a configuration file.
func (s scene) wantRefusal(r refusal, path string) {
	s.t.Helper()
	want := regexp.QuoteMeta(strings.ReplaceAll(r.want, "@", s.dir))
	said := regexp.MustCompile("^athena: " + strings.ReplaceAll(want, "…", ".*") + "\n$")
	for _, c := range []struct {
		verb string
		code int
	}{{"config check", cli.ExitUsage}, {"run", r.code}} {
		code, stdout, stderr := athena(append(strings.Fields(c.verb), "--config", path)...)
		usage := "Run 'athena " + c.verb + " --help' for usage.\n"
		if strings.Contains(stderr, usage) && strings.Contains(stderr, "made for another configuration") {
			s.t.Errorf("%s: prints %s; want no mention of the usage", c.verb, stderr)
		}
		stderr = strings.TrimSuffix(stderr, usage)
		if code != c.code || stdout != "" || !said.MatchString(stderr) {
			s.t.Errorf("%s: code %d, %q, prints\n%s\nwant %d and\n%s", c.verb, code, stdout, stderr, c.code,
				r.want)
		}
	}
}

// wantUnchanged checks that no file has been created, removed or changed.
func (s scene) wantUnchanged(before []string) {
	s.t.Helper()
	if after := s.tree(); !slices.Equal(before, after) {
		s.t.Errorf("left\n%q\nof\n%q", after, before)
	}
}

// TestOneMistakeOneFault checks that the consequences of a misspelled key, or of a value of the
// wrong type, are not reported.
func TestOneMistakeOneFault(t *testing.T) {
	for _, text := range []string{
		"addr: :7001\nadvertise: 127.0.0.1:7001\nsize: 2\nseeds: [127.0.0.1:7001, 127.0.0.1:7002]\n" +
			"secret-file: @/secret\nother-secret-file: @/secret\ndata-dir: @/data\njoin-only: true\n" +
			"profile: wan\nheartbeat-timeout: 2s\nlease-timeout: 5s\nadmin: 0.0.0.0:0\n" +
			"admin-write: true\nadmin-token-file: @/secret\n",
		"addr: 127.0.0.1:7001\nsize: 1\ntls-ca: @/ca\ntls-cert: @/cert\ntls-key: @/key\nmemory: true\n",
		"addr: 127.0.0.1:7001\nsize: 1\ninsecure: true\nmemory: true\n",
		"addr: 0.0.0.0:7001\nadvertise: 10.0.0.1:7001\nsize: 1\ninsecure-anywhere: true\nmemory: true\n",
	} {
		s := newScene(t)
		s.certificates(known)
		lines := strings.SplitAfter(strings.ReplaceAll(text, "@", s.dir), "\n")
		for i, line := range lines[:len(lines)-1] {
			for _, changed := range []string{"x" + line, line[:strings.Index(line, ":")+1] + " {}\n"} {
				lines[i] = changed
				s.write("athena.yaml", strings.Join(lines, ""))
				code, _, stderr := athena("config", "check", "--config", s.path("athena.yaml"))
				if code != cli.ExitUsage || strings.Count(stderr, "\n") != 2 {
					t.Errorf("%q in\n%s: code %d, prints\n%s\nwant %d, one fault and the help line",
						changed, text, code, stderr, cli.ExitUsage)
				}
			}
			lines[i] = line
		}
		s.write("athena.yaml", strings.Join(lines, ""))
		code, _, stderr := athena("config", "check", "--config", s.path("athena.yaml"))
		if code != cli.ExitDone {
			t.Errorf("\n%s: code %d, prints\n%s\nwant no fault", text, code, stderr)
		}
	}
}
