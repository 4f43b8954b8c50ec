// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// shortRevision is the length of a shortened commit hash.
const shortRevision = 12

// Describe returns the first row of a file: the date, the commit of this program and the machine.
func Describe() Row {
	return Row{
		"date": time.Now().UTC().Format(time.RFC3339), "commit": findCommit(),
		"go": runtime.Version(), "processors": runtime.NumCPU(), "processor": processorName(),
		"kernel": firstLine("/proc/sys/kernel/osrelease"),
	}
}

// Title returns the row of Describe as one line.
func (r Row) Title() string {
	return fmt.Sprintf("%s, %v x %s, Linux %s, %s, commit %s", r["date"], r["processors"],
		r["processor"], r["kernel"], r["go"], r["commit"])
}

// AddLoad adds the load of the machine over the last minute, if the system reports it.
func (r Row) AddLoad() {
	var load float64
	if _, err := fmt.Sscan(firstLine("/proc/loadavg"), &load); err == nil {
		r["load"] = load
	}
}

// findCommit returns the commit of this program. If the build does not contain the commit, as with
// go run, it returns the commit of the working copy.
func findCommit() string {
	var revision, modified string
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value[:min(len(s.Value), shortRevision)]
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = "-dirty"
			}
		}
	}
	if revision != "" {
		return revision + modified
	}
	text, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

func processorName() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
