// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

var verbLine = regexp.MustCompile(`(?m)^  ([a-z]+) +\S`)

// listVerbs returns the words of each verb below the given one, including the help topics.
func listVerbs(t *testing.T, words ...string) (verbs []string) {
	t.Helper()
	code, help, stderr := run(t, append(words, "--help")...)
	if code != 0 || stderr != "" {
		t.Errorf("athena %s --help: exit %d, standard error %q, want none",
			strings.Join(words, " "), code, stderr)
	}
	_, list, _ := strings.Cut(help, "\nAvailable Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for _, m := range verbLine.FindAllStringSubmatch(list, -1) {
		below := append(append([]string{}, words...), m[1])
		verbs = append(append(verbs, strings.Join(below, " ")), listVerbs(t, below...)...)
	}
	return verbs
}

// TestProcessIsQuiet checks that a verb that succeeds without a warning, or that prints its help,
// writes nothing to standard error, and that a node writes only its log.
func TestProcessIsQuiet(t *testing.T) {
	t.Parallel()
	if verbs := listVerbs(t); len(verbs) < 30 {
		t.Errorf("found the verbs %q, want all of them", verbs)
	}
	c := newNodes(t, 1)
	node := c.start(1, "--admin-write", "--log-format", "json")
	c.settle(1)
	succeed := func(verbs ...string) {
		for _, verb := range verbs {
			if code, _, stderr := run(t, strings.Fields(verb)...); code != 0 || stderr != "" {
				t.Errorf("athena %s: exit %d, standard error %q, want 0 and none", verb, code, stderr)
			}
		}
	}
	succeed("", "--version", "version", "help environment", "completion bash", "secret new",
		"sim --runs 1 --for 10s",
		"config check "+strings.Join(
			c.flags(1, "--cluster", "orders", "--admin", "off", "--data-dir", c.store(2))[1:], " "),
		"config show "+strings.Join(c.flags(1)[1:], " "))
	for _, verb := range []string{
		"members", "leader", "status", "status -o json", "events", "jobs", "prefer 3", "label zone=a",
		"jobs disable billing n1", "jobs enable billing n1", "lock backup -- true",
		"release --keep 1", "leave",
	} {
		before, command, isHolder := strings.Cut(verb, " -- ")
		verb = before + " --admin " + c.admin(1)
		if isHolder {
			verb += " -- " + command
		}
		succeed(verb)
	}
	if code := node.wait(); code != 0 {
		t.Errorf("the node: exit %d, want 0", code)
	}
	for line := range strings.Lines(node.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("the log of JSON has the line %q", line)
		}
	}
}
