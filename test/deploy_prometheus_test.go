// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v4"
)

// monitored is a Prometheus with the files of deploy/prometheus.
type monitored struct {
	t   *testing.T
	url string
}

// startPrometheus starts Prometheus for the nodes whose admin APIs have these addresses. It scrapes
// and evaluates often, and alerts wait for a second; their expressions are the shipped ones. The
// group of the objective keeps its interval, which is a factor of its expressions. edits are pairs
// of a text in the configuration and its replacement.
func startPrometheus(t *testing.T, token string, targets []string, edits ...string) monitored {
	t.Helper()
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed (make tools)")
	}
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := string(readExample(t, "deploy/prometheus/prometheus.yaml"))
	edits = append(edits, "interval: 15s", "interval: 500ms")
	write("prometheus.yaml", strings.NewReplacer(edits...).Replace(config))
	rules := string(readExample(t, "deploy/prometheus/alerts.yaml"))
	rules = strings.Replace(rules, "interval: 15s\n", "interval: 500ms\n", 1)
	write("alerts.yaml", regexp.MustCompile(`(?m)^( +for): \S+$`).ReplaceAllString(rules, "$1: 1s"))
	examples := regexp.MustCompile(`10\.0\.0\.\d:7070`)
	list := examples.ReplaceAllStringFunc(string(readExample(t, "deploy/prometheus/targets.yaml")),
		func(string) (next string) {
			next, targets = targets[0], targets[1:]
			return next
		})
	write("targets.yaml", list)
	write("admin-token", token)
	addr := freeAddresses(t, 1)[0]
	cmd := exec.Command(prometheus, "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)
	startCommand(t, nil, cmd)
	return monitored{t, "http://" + addr}
}

// chanceAlerts are the alerts that firing leaves out, because chance and the speed of the machine
// decide whether they fire. AthenaErrorBudget: its group is evaluated every 15 s, so it may miss
// a short outage or count it as 15 s. AthenaSlowSync, AthenaDiskStalled: the disk may be slow.
var chanceAlerts = []string{"AthenaErrorBudget", "AthenaSlowSync", "AthenaDiskStalled"}

// firing returns the names of the alerts that fire, sorted, and the summary of each. It leaves out
// chanceAlerts.
func (m monitored) firing() (names []string, summaries map[string]string, ok bool) {
	m.t.Helper()
	resp, err := http.Get(m.url + "/api/v1/alerts")
	if err != nil {
		return nil, nil, false
	}
	defer resp.Body.Close()
	var found struct {
		Data struct {
			Alerts []struct {
				State               string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&found); err != nil {
		return nil, nil, false
	}
	summaries = map[string]string{}
	for _, a := range found.Data.Alerts {
		name := a.Labels["alertname"]
		if a.State == "firing" && !slices.Contains(chanceAlerts, name) {
			names = append(names, name)
			summaries[name] = a.Annotations["summary"]
		}
	}
	slices.Sort(names)
	return names, summaries, true
}

// waitFiring waits until exactly these alerts fire, sorted by name, and returns their summaries.
func (m monitored) waitFiring(why string, want ...string) (summaries map[string]string) {
	m.t.Helper()
	var names []string
	defer func() {
		if m.t.Failed() {
			m.t.Logf("%s: the alerts %q fire", why, names)
		}
	}()
	eventually(m.t, fmt.Sprintf("%s: want the alerts %q", why, want), func() (is bool) {
		names, summaries, is = m.firing()
		return is && slices.Equal(names, want)
	})
	return summaries
}

// waitScraped waits until the query has a result.
func (m monitored) waitScraped(query string) {
	m.t.Helper()
	eventually(m.t, query, func() bool {
		resp, err := http.Get(m.url + "/api/v1/query?query=" + query)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		var found struct {
			Data struct{ Result []json.RawMessage }
		}
		return json.NewDecoder(resp.Body).Decode(&found) == nil && len(found.Data.Result) > 0
	})
}

// TestPrometheusFires checks with a real Prometheus that a member that is down, a lost majority, a
// cluster that is down and a job without a leader each fire their alerts and no others, and that
// the alerts end when the fault does.
func TestPrometheusFires(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	const token = "0123456789-the-token"
	file := c.secret("token", token)
	flags := func(i int) []string {
		return []string{"--admin-token-file", file, "--admin-write", "--admin", c.addrs[i-1]}
	}
	m := startPrometheus(t, token, c.addrs)
	m.waitFiring("no node", "AthenaNoMetrics")
	all := map[int]*process{}
	for i := 1; i <= 3; i++ {
		all[i] = c.start(i, flags(i)...)
	}
	m.waitScraped("sum(athena_has_quorum)==3")
	m.waitFiring("three nodes")

	asks := []string{"--admin", c.addrs[0], "--admin-token-file", file}
	elect := start(t, slices.Concat([]string{"elect", "billing"}, asks)...)
	m.waitScraped("athena_job_has_leader==1")
	host := slices.Concat([]string{"billing", "--host", "127.0.0.1"}, asks)
	if code, _, out := run(t, slices.Concat([]string{"jobs", "disable"}, host)...); code != 0 {
		t.Fatalf("jobs disable: %d %s", code, out)
	}
	m.waitFiring("nobody may lead the job", "AthenaJobWithoutLeader")
	if code, _, out := run(t, slices.Concat([]string{"jobs", "enable"}, host)...); code != 0 {
		t.Fatalf("jobs enable: %d %s", code, out)
	}
	m.waitFiring("the job has a leader")
	elect.signal(syscall.SIGTERM)
	elect.wait()
	m.waitFiring("the job is gone within the hour", "AthenaJobWithoutLeader")

	all[3].signal(syscall.SIGKILL)
	got := m.waitFiring("a member is down", "AthenaJobWithoutLeader", "AthenaMissingMember")
	if want := "Members of athena that are not active: 1."; got["AthenaMissingMember"] != want {
		t.Errorf("summary %q, want %q", got["AthenaMissingMember"], want)
	}
	all[2].signal(syscall.SIGKILL)
	m.waitFiring("no majority", "AthenaNoQuorum")
	all[1].signal(syscall.SIGKILL)
	m.waitFiring("no node of the cluster", "AthenaNoMetrics")
	for i := 1; i <= 3; i++ {
		c.start(i, flags(i)...)
	}
	m.waitFiring("three nodes again", "AthenaJobWithoutLeader")
}

const runbookURL = "https://github.com/athena-go/athena/blob/main/docs/runbooks/"

// TestRunbooks checks that each alert links to its page, and that each page is short, belongs to an
// alert and has its four parts.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(readExample(t, "deploy/prometheus/alerts.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	alerts := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			alerts[r.Alert] = true
			if got, want := r.Annotations["runbook_url"], runbookURL+r.Alert+".md"; got != want {
				t.Errorf("%s links to %q, want %q", r.Alert, got, want)
			}
		}
	}
	for name, text := range runbookPages(t) {
		if name == "README" {
			continue
		}
		if !alerts[name] {
			t.Errorf("docs/runbooks/%s.md: no alert has this name", name)
		}
		delete(alerts, name)
		if n := len(strings.Fields(text)); n > 360 {
			t.Errorf("docs/runbooks/%s.md: %d words, want at most 360", name, n)
		}
		rest := text
		for _, part := range []string{
			"# " + name + "\n", "\n**Users see:** ", "\n**Look:**", "\n**Do", "\n**Over when** ",
		} {
			_, after, found := strings.Cut(rest, part)
			if rest = after; !found {
				t.Errorf("docs/runbooks/%s.md: no %q, or not in this place", name, part)
			}
		}
	}
	for name := range alerts {
		t.Errorf("%s has no page in docs/runbooks", name)
	}
}

// runbookPages returns the pages of docs/runbooks by name.
func runbookPages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../docs/runbooks/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no runbooks: %v", err)
	}
	pages := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		pages[strings.TrimSuffix(filepath.Base(f), ".md")] = string(text)
	}
	return pages
}

var (
	commandBlock = regexp.MustCompile("(?s)```(?:sh)?\n(.*?)```")
	inlineCode   = regexp.MustCompile("`([^`\n]+)`")
	lonelyFlag   = regexp.MustCompile(`^--[a-z-]+`)
	metricName   = regexp.MustCompile(`\bathena_[a-z_]+`)
)

// codeIn returns the lines of the blocks of a page, and its inline code.
func codeIn(page string) (all []string) {
	for _, block := range commandBlock.FindAllStringSubmatch(page, -1) {
		all = append(all, strings.Split(strings.TrimSpace(block[1]), "\n")...)
	}
	rest := commandBlock.ReplaceAllString(page, "")
	for _, code := range inlineCode.FindAllStringSubmatch(rest, -1) {
		all = append(all, code[1])
	}
	return all
}

// faultOf returns why athena rejects the command, or "". With --help, it checks the verbs and the
// flags, and prints the help of the verb instead of running it.
func faultOf(t *testing.T, command string) string {
	t.Helper()
	command, _, _ = strings.Cut(command, " | ")
	args := strings.Fields(command)[1:]
	code, stdout, stderr := run(t, append(args, "--help")...)
	usage := regexp.MustCompile(`(?m)^Usage:\n  athena ([a-z]+)`).FindStringSubmatch(stdout)
	switch {
	case code != 0:
		return stderr
	case usage == nil || usage[1] != args[0]:
		return "there is no such verb"
	}
	return ""
}

// TestRunbookCommands checks that athena accepts each command in the runbooks, that each flag
// belongs to athena run, elect, lock or jobs enable, and that each metric exists.
func TestRunbookCommands(t *testing.T) {
	t.Parallel()
	var flags string
	for _, verb := range []string{"run", "elect", "lock", "jobs enable"} {
		_, stdout, _ := run(t, append(strings.Fields(verb), "--help")...)
		flags += stdout
	}
	metrics := string(readExample(t, "docs/metrics.md"))
	checked := map[string]bool{}
	for name, page := range runbookPages(t) {
		for _, code := range codeIn(page) {
			if flag := lonelyFlag.FindString(code); flag != "" &&
				!regexp.MustCompile(flag+`[ \n]`).MatchString(flags) {
				t.Errorf("docs/runbooks/%s.md: no flag %s", name, flag)
			}
			for _, metric := range metricName.FindAllString(code, -1) {
				if !strings.Contains(metrics, "`"+metric) && !strings.HasPrefix(code, "cluster:"+metric) {
					t.Errorf("docs/runbooks/%s.md: no metric %s", name, metric)
				}
			}
			if !strings.HasPrefix(code, "athena ") || checked[code] {
				continue
			}
			checked[code] = true
			if fault := faultOf(t, code); fault != "" {
				t.Errorf("docs/runbooks/%s.md: %s: %s", name, code, fault)
			}
		}
	}
	if len(checked) < 10 {
		t.Errorf("%d commands were found: the test reads the pages wrongly", len(checked))
	}
	for _, wrong := range []string{"athena stats", "athena status --jsn", "athena jobs --host x"} {
		if faultOf(t, wrong) == "" {
			t.Errorf("%s: accepted, want a fault", wrong)
		}
	}
}

// TestPrometheusConfig checks the shipped configuration with promtool.
func TestPrometheusConfig(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (make tools)")
	}
	dir := t.TempDir()
	for _, name := range []string{"prometheus.yaml", "alerts.yaml", "targets.yaml"} {
		text := readExample(t, "deploy/prometheus/"+name)
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "admin-token"), []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(promtool, "check", "config", "prometheus.yaml")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool check config: %v\n%s", err, out)
	}
	if !slices.Contains(strings.Fields(string(readExample(t, "deploy/prometheus/targets.yaml"))),
		"10.0.0.1:7070") {
		t.Error("targets.yaml lists no node")
	}
}

// TestDeployPrometheusReaches checks that the targets of Prometheus are the admin addresses of the
// nodes that examples/athena.yaml configures, and that both use a token and no TLS.
func TestDeployPrometheusReaches(t *testing.T) {
	t.Parallel()
	var node map[string]any
	var targets []struct{ Targets []string }
	var config struct {
		Configs []struct {
			Scheme        string
			Authorization struct {
				File string `yaml:"credentials_file"`
			}
		} `yaml:"scrape_configs"`
	}
	for name, into := range map[string]any{
		"examples/athena.yaml": &node, "deploy/prometheus/targets.yaml": &targets,
		"deploy/prometheus/prometheus.yaml": &config,
	} {
		if err := yaml.Unmarshal(readExample(t, name), into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	_, port, _ := strings.Cut(fmt.Sprint(node["admin"]), ":")
	var want []string
	for _, seed := range node["seeds"].([]any) {
		host, _, _ := strings.Cut(seed.(string), ":")
		want = append(want, host+":"+port)
	}
	if got := targets[0].Targets; !slices.Equal(got, want) || node["admin"] != got[0] {
		t.Errorf("targets %q, want those of nodes with admin %v: %q", got, node["admin"], want)
	}
	token := fmt.Sprint(node["admin-token-file"])
	if got := config.Configs[0]; filepath.Base(token) != got.Authorization.File || got.Scheme != "" ||
		has(node, "admin-cert") {
		t.Errorf("Prometheus sends %+v, but the nodes have the token file %s, admin-cert: %v",
			got, token, node["admin-cert"])
	}
}
