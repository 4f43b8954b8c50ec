// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/cluster"
)

// TestOrderOfConfiguration checks that flags override variables, variables override the file, and
// the file overrides defaults. A list is replaced as a whole.
func TestOrderOfConfiguration(t *testing.T) {
	path := writeConfig(t, `# every kind of value
addr: 127.0.0.1:7001
size: 3
seeds:
  - 127.0.0.1:7001
  - "127.0.0.1:7002"
insecure: true
memory: true
heartbeat-interval: 50ms
ttl-timeout: 5s
leader-timeout: 2s
name: '7'
`)
	environ := map[string]string{
		"ATHENA_CONFIG": path, "ATHENA_TTL_TIMEOUT": "6s", "ATHENA_LEADER_TIMEOUT": "3s",
		"ATHENA_NAME": "", // counts as unset
	}
	got := resolve(t, environ, "--leader-timeout", "4s")
	want := cluster.DefaultConfig()
	want.Addr, want.Name, want.Cluster, want.Size = "127.0.0.1:7001", "7", cluster.DefaultCluster, 3
	want.Seeds, want.Insecure = []string{"127.0.0.1:7001", "127.0.0.1:7002"}, true
	want.HeartbeatInterval, want.TTLTimeout = 50*time.Millisecond, 6*time.Second
	want.LeaderTimeout, want.Memory = 4*time.Second, true
	want.SeatTimeout = cluster.DefaultSeatTimeout
	want.LeaseTimeout = got.LeaseTimeout // Start chooses the default
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got = resolve(t, environ, "--config", writeConfig(t, "addr: 127.0.0.1:7009\nsize: 1"),
		"--insecure", "--memory", "--seeds", "127.0.0.1:7009")
	if got.Addr != "127.0.0.1:7009" || got.HeartbeatInterval != 100*time.Millisecond {
		t.Errorf("--config over ATHENA_CONFIG: %+v, want only that file", got)
	}
	seeds := resolve(t, map[string]string{"ATHENA_SEEDS": "127.0.0.1:7003"}, "--config", path).Seeds
	if diff := cmp.Diff([]string{"127.0.0.1:7003"}, seeds); diff != "" {
		t.Errorf("seeds of a variable over those of the file, -want +got:\n%s", diff)
	}
}

// TestFormsOfValues checks the YAML forms that set the same values as flags.
func TestFormsOfValues(t *testing.T) {
	for _, c := range []struct{ text, flag, want string }{
		{"seeds: a:1, b:2", "seeds", "a:1,b:2"},
		{"seeds: [a:1, b:2]", "seeds", "a:1,b:2"},
		{"seeds: []", "seeds", ""},
		{"{size: 3}", "size", "3"},
		{"\ufeff---\r\nsize: 3\r\n", "size", "3"},
		{"join-only: True", "join-only", "true"},
		{"join-only: false", "join-only", "false"},
		{`lease-timeout: "1m30s" # quoted`, "lease-timeout", "1m30s"},
		{"name: \"\\u00e9\"", "name", "é"},
		{"cluster: 10.0.0.1", "cluster", "10.0.0.1"},
		{"name: yes", "name", "yes"},
	} {
		s, f := parsed(t, "--config", writeConfig(t, c.text))
		_, _ = s.Read(f, in(nil)) // the configuration is incomplete
		if got := f.Lookup(c.flag).Value.String(); got != c.want {
			t.Errorf("%q: %s %q, want %q", c.text, c.flag, got, c.want)
		}
		if o := originOf(f, c.flag); o.from != "file" {
			t.Errorf("%q: %s has origin %+v, want the file", c.text, c.flag, o)
		}
	}
	for _, empty := range []string{"", "\n# nothing\n", "---\n", "null\n", "{}"} {
		if p := parseFile("f", []byte(empty)); len(p.values)+len(p.faults) > 0 {
			t.Errorf("%q: %v, %v, want neither values nor faults", empty, p.values, p.faults)
		}
	}
}

// TestFaultsOfFiles checks that each fault includes its line, its column and a remedy.
func TestFaultsOfFiles(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string // parts of the faults, in order
	}{
		{"heartbeat_interval: 1s", []string{
			`f:1:1: unknown key "heartbeat_interval"; did you mean heartbeat-interval?`}},
		{"size: 3\n--Seeds: a:1", []string{`f:2:1: unknown key "--Seeds"; did you mean seeds?`}},
		{"frob: 1", []string{`f:1:1: unknown key "frob"; athena help run lists the flags`}},
		{"config: x\nsupervised: true", []string{"f:1:1: config: a file cannot include another: ",
			`f:2:1: unknown key "supervised"`}},
		{"size: 3\nname: a\nsize: 4", []string{
			"f:3:1: size: duplicate key, first in line 1: remove one of them"}},
		{"size: three\njoin-only: 1\nttl-timeout: 10", []string{
			`f:1:7: size "three": must be an integer`, `f:2:12: join-only "1": must be true or false`,
			`f:3:14: ttl-timeout "10": must be a duration with a unit, such as 500ms`}},
		{"size: '3'\nsize : 3.5", []string{`size "3": must be an integer, without quotes`,
			"f:2:1: size: duplicate key"}},
		{"size: 99999999999999999999", []string{"f:1:7: size"}},
		{"memory: yes", []string{`f:1:9: memory "yes": must be true or false`}},
		{"lease-timeout: 3 s", []string{`f:1:16: lease-timeout "3 s": must be a duration`}},
		{"name: 5\ncluster: 2026-01-01\ndata-dir: true", []string{
			`f:1:7: name "5": must be text: put it in quotes`, "f:2:10: cluster", "f:3:11: data-dir"}},
		{"size:\nname: ~", []string{"f:1:6: size: no value: must be an integer, or remove the key",
			`f:2:7: name "~": no value`}},
		{"size: [3]\nname: {a: 1}", []string{"f:1:7: size: must be an integer, not a list or mapping",
			"f:2:7: name: must be text"}},
		{"seeds:\n  - a:1\n  - [b:2]\n  - 7\n  - c:1,d:1\n  - ''", []string{
			"f:3:5: seeds: must be", `f:4:5: seeds "7": must be`, "f:5:5: seeds \"c:1,d:1\": ",
			"f:6:5: seeds: "}},
		{"seeds: a:1 b:2", []string{`f:1:8: seeds "a:1 b:2": separate seeds by commas`}},
		{"name: &a x\ncluster: *a", []string{"f:2:10: cluster",
			"aliases are not supported: write the value"}},
		{"name: x\n<<: {size: 3}", []string{"f:2:1: invalid key"}},
		{"? [a]\n: 1\n3: 4", []string{"f:1:3: invalid key: ", "f:3:1: invalid key"}},
		{"name: !!binary eA==", []string{"f:1:7: name"}},
		{"- size: 3", []string{"f:1:1: must consist of lines of the form key: value"}},
		{"size 3", []string{"f:1:1: must consist of lines of the form key: value"}},
		{"size: 3\n---\nname: x", []string{"f:2:1: a second document begins here"}},
		{"size: 3\n...\nname: x", []string{"f:3:1: a second document begins here"}},
		{"size: 3\n---\n[", []string{"f:4:1: invalid YAML: did not find expected node content"}},
		{"size: 3\n name: x", []string{"f:2:6: invalid YAML: mapping values are not allowed"}},
		{"size: 3\n\tname: x", []string{"f:2:1: invalid YAML: found a tab"}},
		{"seeds: [a:1",
			[]string{"f:2:1: invalid YAML: did not find expected ',' or ']', while parsing a " +
				"flow sequence from line 1 on"}},
		{"name: *x", []string{"f:1:7: invalid YAML: unknown anchor"}},
		{"name: a\ncluster: \xff", []string{"f:2:10: invalid character"}},
		{"name: a\x00", []string{"f:1:8: invalid character"}},
		{"\xff\xfes\x00", []string{"f:1:1: invalid character"}},
	} {
		wrong := parseFile("f", []byte(c.text)).faults
		var texts []string
		for _, w := range wrong {
			texts = append(texts, w.err.Error())
		}
		rest := strings.Join(texts, "\n")
		for _, want := range c.want {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("%q: got\n%s\nwant %q in it, in this order",
					c.text, strings.Join(texts, "\n"), want)
			}
			rest = after
		}
	}
}

// TestAliasBomb checks that a short file that expands to billions of values is rejected.
func TestAliasBomb(t *testing.T) {
	text := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'k'; c++ {
		nine := strings.Repeat("*"+string(c-1)+", ", 9)
		text += fmt.Sprintf("%c: &%c [%s]\n", c, c, nine)
	}
	p := parseFile("f", []byte(text+"seeds: *k\n"))
	values, wrong := p.values, p.faults
	if len(values) > 0 || len(wrong) != 12 ||
		!strings.Contains(wrong[11].err.Error(), "f:12:8: seeds: aliases are not supported") {
		t.Errorf("%v, %v, want 12 faults and no value", values, wrong)
	}
}

// TestEveryFlagIsAKey, except --config.
func TestEveryFlagIsAKey(t *testing.T) {
	f := Flags()
	for _, name := range Settable(f) {
		wrong := parseFile("f", []byte(name+":")).faults
		noKey := len(wrong) != 1 || !strings.Contains(wrong[0].err.Error(), "no value")
		if noKey != (name == ConfigFlag) {
			t.Errorf("%s: %v", name, wrong)
		}
		known := []string{"string", "int", "bool", "duration", "seeds", "labels", "preference"}
		if kind := f.Lookup(name).Value.Type(); !slices.Contains(known, kind) {
			t.Errorf("--%s has type %s: add it to mustBe in file.go", name, kind)
		}
	}
}

var placed = regexp.MustCompile(`^f:[1-9][0-9]*:[1-9][0-9]*: `)

// FuzzFile parses arbitrary configuration files. It checks that each fault is one line with its
// place in the file, and that each value is valid for its flag.
func FuzzFile(f *testing.F) {
	for _, text := range []string{
		"addr: 127.0.0.1:7001\nsize: 3\nseeds:\n  - a:1\n  - b:2\njoin-only: true\nlease-timeout: 1s\n",
		"seeds: [a:1, 'b:2']\n# x\nname: \"\\x41\\n\"\ncluster: |\n  x\n  y\n",
		"a: &a [x]\nb: *a\n<<: *a\n", "size: 3\n---\nsize: 4\n", "%YAML 1.1\n---\nsize: 0o17\n",
		"? {a: b}\n: c\n", "!!set {a}", "- - - -", "{{{{", "name: !!str 5\nsize: !!int '3'", "\ufeffx: 1",
		"groups:\n  a: {strategy: lowest, alive: 1s}\n  b:\n    orgLeader: true\n    sample: -1s\n",
		"groups: {a: {useLeaderElection: on, leaderAliveThreshold: 3s, alive: 2s}, a: ~, ? [b] : c}",
		"size: 1_0\nmemory: on\nname: 2026-01-01", "data-dir: >-\n  a\n\n  b", "name: @",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p := parseFile("f", text)
		values, wrong := p.values, p.faults
		for _, w := range wrong {
			fault := w.err.Error()
			if !placed.MatchString(fault) || strings.Contains(fault, "\n") || len(fault) > 1000 {
				t.Fatalf("%q: %q, want one line with FILE:LINE:COLUMN", text, fault)
			}
			line, _, _ := strings.Cut(fault[2:], ":")
			n, err := strconv.Atoi(line)
			// YAML has other line breaks than the newline.
			if err != nil || n > len(text)+2 || !strings.ContainsAny(string(text), "\r\u0085\u2028\u2029") &&
				n > strings.Count(string(text), "\n")+2 {
				t.Fatalf("%q: %q has a line beyond the end", text, fault)
			}
		}
		if err := fromFile(Flags(), "f", values); err != nil {
			t.Fatalf("%q: accepted a value that the flag rejects: %v", text, err)
		}
		for _, g := range p.groups {
			if err := fromFile(groupFlags(), "f", g.values); err != nil {
				t.Fatalf("%q: accepted a value that the flag rejects: %v", text, err)
			}
		}
	})
}
