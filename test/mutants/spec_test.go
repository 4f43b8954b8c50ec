// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var quint = flag.String("quint", "",
	"the folder in which Quint is installed: judge the mutants by the specification alone")

// unspecified lists the mutants that are outside of the specification, with the reason.
var unspecified = map[string]string{
	"strangers-claim":                     "views and claims",
	"islands":                             "views and claims",
	"provisional-is-healthy":              "the health of a leader is a matter of views",
	"turn-lost-by-a-slow-answer":          "when a node proposes",
	"asked-follower-leaves":               "when a node asks",
	"no-voter-yields":                     "when a node asks",
	"votes-outlast-two-saves":             "when a node proposes",
	"yields-without-end":                  "when a node asks",
	"joins-an-ended-run":                  "views and claims",
	"seeds-asked-during-an-election":      "when a node asks",
	"relayed-end-unproved":                "who may announce an end",
	"end-of-another-cluster":              "who may announce an end",
	"question-shows-nothing":              "when a node asks",
	"state-with-a-vote-ignored":           "when a node asks",
	"state-of-a-stranger-taken":           "which process is believed",
	"unknown-addresses-believed":          "which process is believed",
	"floor-of-any-node":                   "which process is believed",
	"raised-run-kept":                     "the numbers of runs",
	"attempt-of-a-follower":               "when a node proposes",
	"asked-node-keeps-its-state":          "when a node asks",
	"voteless-follower-asks-no-member":    "when a node asks",
	"founds-beside-a-state":               "lost stores of a majority",
	"silent-successor-elected":            "which successor is proposed costs time only",
	"provisional-leader-ends-a-hand-over": "when a node proposes",
	"declared-during-its-proposal":        "provisional leaders",
	"stands-while-it-hands-over":          "when a node proposes",
	"stopped-leader-is-silent":            "a message may be lost",
	"followers-wait-for-no-successor":     "when a node asks",
	"given-up-before-its-work-ends":       "functions of the application",
	"drained-never-stands":                "when a node proposes",
	"bound-without-limit":                 "when a node proposes",
	"leader-given-up-by-its-address":      "views and claims",
	"run-of-any-store":                    "views and claims",
	"place-of-a-member-that-is-heard":     "which silence is needed to give a place to another store",
	"second-vote-given-up":                "which silence is needed to give a place to another store",
	"seat-timeout-ignored":                "how long a seat is kept",
	"seat-without-a-store-is-held":        "which silence is needed to give a place to another store",
	"lost-run-forgotten":                  "limits of numbers",
	"lost-run-keeps-its-seat":             "which joiners are refused",
	"stopped-by-a-lost-run":               "which proof stops a node",
	"version-raised-by-strangers":         "when a node proposes",
	"version-raised-at-once":              "when a node proposes",
	"version-without-a-maximum":           "limits of numbers",
	"run-jumps":                           "limits of numbers",
	"bound-without-a-vote":                "a vote that does not count costs time only",
	"founds-beside-a-follower":            "lost stores of a majority",
	"drop-unannounced":                    "what a step reports to its caller",
	"new-run-unannounced":                 "what a step reports to its caller",
	"anyone-ends-a-leader":                "which proof stops a node",
	"founding-with-any-version":           "voters refuse such a founding, so it only costs time",
	"copy-forgets-a-run":                  "stores restored from copies",
	"copy-forgets-a-state":                "stores restored from copies",
	"copy-forgets-an-answer":              "stores restored from copies",
	"copy-forgets-that-it-led":            "stores restored from copies",
	"copy-takes-a-state":                  "stores restored from copies",
	"own-run-forgotten":                   "stores restored from copies",
	"copy-by-anybody":                     "stores restored from copies",
	"copy-by-a-voter-with-less":           "stores restored from copies",
	"copy-of-a-member":                    "stores restored from copies",
	"copy-without-a-floor":                "stores restored from copies",
	"smaller-than-its-members":            "resized stores",
	"seats-released-together":             "resized stores",
	"sizes-meet":                          "resized stores",
	"founding-repeats-tokens":             "recovered stores",
	"recovered-supports-used-tokens":      "recovered stores",
	"founding-forgets-accepted":           "the founder begins again, so it only costs time",
	"witness-stands":                      "no safety depends on traits and preference",
	"witness-founds-for-itself":           "no safety depends on traits and preference",
	"witness-keeps-its-state":             "when a node proposes",
	"founder-keeps-its-state":             "when a node proposes",
	"witness-succeeds":                    "no safety depends on traits and preference",
	"witness-keeps-leading":               "no safety depends on traits and preference",
	"less-preferred-first":                "no safety depends on traits and preference",
	"leader-replaced-unasked":             "no safety depends on traits and preference",
	"hand-over-at-once":                   "no safety depends on traits and preference",
	"hands-over-to-the-cut-off":           "no safety depends on traits and preference",
	"successor-without-proof":             "which successor is proposed",
	"proof-asked-once":                    "which successor is proposed",
	"offer-answered-by-acks-only":         "which successor is proposed",
	"refusal-to-lead-ignored":             "which successor is proposed",
	"short-leaderships-forgotten":         "no safety depends on traits and preference",
	"active-since-survives-silence":       "no safety depends on traits and preference",
	"announced-once":                      "no safety depends on traits and preference",
	"new-worker-knows-its-losses":         "the specification has no workers",
	"worker-needs-a-seat":                 "the specification has no workers",
	"request-of-a-forgotten-worker":       "the specification has no workers",
	"worker-trusts-by-its-own-timings":    "the specification has no workers",
	"trust-outlasts-a-leadership":         "the specification has no workers",
	"worker-in-the-name-of-another":       "the specification has no workers",
	"stranger-relays":                     "the specification has no workers",
	"worker-fills-the-table":              "the specification has no workers",
	"workers-crowd-the-table":             "the specification has no workers",
	"worker-takes-the-room-of-workers":    "the specification has no workers",
	"worker-takes-the-room-of-members":    "the specification has no workers",
}

// TestSpecificationRejects checks that the specification in spec/ rejects a history of every
// mutant. The history is from the mutant's stored run, from its test, or from a random run. The
// same runs of the code without the mutant must be valid.
func TestSpecificationRejects(t *testing.T) {
	if *quint == "" {
		t.Skip("run with -quint FOLDER: it takes minutes")
	}
	judge := &judge{control: buildWith(t, nil, "./spec/validate")}
	var spoken int
	var rejected atomic.Int32
	for _, m := range Table() {
		if *one != "" && m.Name != *one {
			continue
		}
		if why, ok := unspecified[m.Name]; ok {
			t.Logf("%s: not specified: %s", m.Name, why)
			continue
		}
		spoken++
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			verdict, ok := judge.rejects(t, m)
			if ok {
				rejected.Add(1)
			}
			t.Logf("%s: %s", m.Name, verdict)
		})
	}
	t.Cleanup(func() {
		t.Logf("the specification rejects %d of %d mutants of its rules", rejected.Load(), spoken)
		if 10*int(rejected.Load()) < 9*spoken {
			t.Errorf("want nine of ten")
		}
	})
}

// judge validates the histories of mutants, and those of the code without a mutant.
type judge struct {
	control string   // validate
	tests   sync.Map // the tests whose histories are valid without a mutant
}

// drawnRuns are the arguments of validate for random runs, if no other run of a mutant is rejected.
var drawnRuns = []string{"-runs", "10", "-for", "5s", "-steps", "400"}

// shownBy lists drawn runs in which a mutant matters, if neither its kept run nor its seed is one.
var shownBy = map[string][]string{
	"dead-value-replaced": {"-size", "3", "-seed", "10", "-steps", "1300"},
}

// rejects returns the first verdict that rejects a history of a mutant.
func (j *judge) rejects(t *testing.T, m Mutant) (verdict string, ok bool) {
	t.Helper()
	bin := buildWith(t, applyPatch(t, m), "./spec/validate")
	if m.Test != "" && m.Package == "" { // tests of other packages record no history
		return j.rejectsTest(t, m, bin)
	}
	file, err := filepath.Abs(m.file())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err == nil {
		args := []string{"-steps", "8000", "-replay", file}
		if verdict, ok = j.compare(t, bin, args); ok {
			return "its kept run is " + verdict, true
		}
	}
	if seed := seedOf(t, m); seed != "" {
		args := []string{"-runs", "1", "-size", "0", "-for", "0", "-steps", "8000", "-seed", seed}
		if verdict, ok = j.compare(t, bin, args); ok {
			return "the run of seed " + seed + " is " + verdict, true
		}
	}
	if args, known := shownBy[m.Name]; known {
		args = slices.Concat([]string{"-runs", "1", "-for", "0"}, args)
		if verdict, ok = j.compare(t, bin, args); ok {
			return "a drawn run is " + verdict, true
		}
	}
	if verdict, ok = j.compare(t, bin, drawnRuns); ok {
		return "a drawn run is " + verdict, true
	}
	return "all histories are valid", false
}

// seedOf returns the seed of the table that shows a mutant, or "".
func seedOf(t *testing.T, m Mutant) string {
	t.Helper()
	_, rows, _ := splitPage(t)
	_, row, _ := strings.Cut(rows, "| "+m.Name+" | "+m.Rule+" | ")
	run, _, _ := strings.Cut(row, " |")
	seed, _ := strings.CutPrefix(run, "seed ")
	if seed == run {
		return ""
	}
	return seed
}

// rejectsTest judges the histories of the test that was written for a mutant, and then those of
// random runs.
func (j *judge) rejectsTest(t *testing.T, m Mutant, bin string) (verdict string, ok bool) {
	t.Helper()
	if _, known := j.tests.LoadOrStore(m.Test, true); !known {
		if out, bad := validate(t, j.control, recordTest(t, m.Test, nil)); bad {
			t.Errorf("the test without the mutant: %s", out)
		}
	}
	if out, bad := validate(t, j.control, recordTest(t, m.Test, applyPatch(t, m))); bad {
		return "a run of its test is " + out, true
	}
	if verdict, ok = j.compare(t, bin, drawnRuns); ok {
		return "a drawn run is " + verdict, true
	}
	return "all histories are valid", false
}

// compare judges runs with a mutant, and the rejected one without the mutant, as far as it was
// valid. The last of several equal flags counts.
func (j *judge) compare(t *testing.T, bin string, args []string) (verdict string, ok bool) {
	t.Helper()
	verdict, ok = validate(t, bin, append(args, "-first"))
	if ok {
		if seed := drawnSeed.FindStringSubmatch(verdict); seed != nil {
			args = append(args, "-runs", "1", "-seed", seed[1])
		}
		if line := rejectedLine.FindStringSubmatch(verdict); line != nil {
			args = append(args, "-steps", line[1])
		}
		if out, bad := validate(t, j.control, args); bad {
			t.Errorf("without the mutant: %s", out)
		}
	}
	return verdict, ok
}

var (
	rejection    = regexp.MustCompile(`[^\n]*rejected: .*`)
	rejectedLine = regexp.MustCompile(`rejected: line (\d+),`)
	drawnSeed    = regexp.MustCompile(`^seed-(\d+)-size`)
)

// validate returns the first rejection.
func validate(t *testing.T, bin string, args []string) (verdict string, rejected bool) {
	t.Helper()
	if len(args) == 0 {
		return "", false
	}
	run := exec.Command(bin, append([]string{"-spec", "spec", "-quint", *quint}, args...)...)
	run.Dir = root
	run.Env = append(os.Environ(), "GOMAXPROCS=1") // the tests of several mutants run at the same time
	out, err := run.CombinedOutput()
	verdict = rejection.FindString(string(out))
	if err != nil && verdict == "" {
		t.Fatalf("%s: %v\n%s", run, err, out)
	}
	return verdict, verdict != ""
}

// clusterFile is the file that contains newCluster. hook is the code that is added to the file, to
// record the steps of every cluster of a test.
const (
	clusterFile = "test/sim/cluster.go"
	hookFile    = "test/sim/recordall.go"
	newCluster  = "func newCluster(s Setup, t *recording) *Cluster {\n"
	hook        = `package sim

import (
	"encoding/json"
	"os"
)

func recordAll(record func(Record)) func(Record) {
	f, err := os.CreateTemp(os.Getenv("ATHENA_HISTORIES"), "*.json")
	if err != nil {
		panic(err)
	}
	e := json.NewEncoder(f)
	return func(r Record) {
		if r.Kind == Stepped {
			if err := e.Encode(r.Step); err != nil {
				panic(err)
			}
		}
		if record != nil {
			record(r)
		}
	}
}
`
)

// recordTest runs a test of package sim. It returns the arguments with which validate judges the
// histories of its clusters.
func recordTest(t *testing.T, name string, files map[string]string) (args []string) {
	t.Helper()
	changed := map[string]string{hookFile: hook}
	for file, text := range files {
		changed[file] = text
	}
	if _, ok := changed[clusterFile]; !ok {
		b, err := os.ReadFile(filepath.Join(root, clusterFile))
		if err != nil {
			t.Fatal(err)
		}
		changed[clusterFile] = string(b)
	}
	text := changed[clusterFile]
	changed[clusterFile] = strings.Replace(text, newCluster, newCluster+
		"\ts.Record = recordAll(s.Record)\n", 1)
	if changed[clusterFile] == text {
		t.Fatalf("%s has no %s", clusterFile, newCluster)
	}
	dir := t.TempDir()
	run := exec.Command("go", "test", "-vet=off", "-overlay", overlayOf(t, changed), "-count=1",
		"-run", "^"+name+"$", "./test/sim")
	run.Dir = root
	run.Env = append(os.Environ(), "ATHENA_HISTORIES="+dir)
	out, _ := run.CombinedOutput() // with the mutant the test fails
	histories, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(histories) == 0 {
		t.Fatalf("%s: %v: no histories\n%s", run, err, out)
	}
	const most = 24 // histories of a test that has many random runs
	return append([]string{"-steps", "8000"}, histories[:min(len(histories), most)]...)
}
