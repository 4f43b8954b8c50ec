// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// groupsFile, in the folder of a run, lists its memory groups.
const groupsFile = "groups"

// memory limits the memory of nodes by groups of the kernel, of version 1 or 2,
// whichever this machine has.
type memory struct {
	groups  []string // folder of each node; none where the machine has no groups
	limit   string   // file with the limit
	use     string   // file with what is used
	none    string   // what to write for no limit
	without string   // why there are no groups
}

// hierarchy is where groups are made in one version.
type hierarchy struct {
	parent, limit, use, none string
}

// listHierarchies lists what this machine may have. In version 1 the own group is
// the parent, in version 2 the root: there a group with processes has no others
// inside.
func listHierarchies() []hierarchy {
	own := "/"
	text, _ := os.ReadFile("/proc/self/cgroup") // without it the root will do
	for line := range strings.Lines(string(text)) {
		if _, path, ok := strings.Cut(line, ":memory:"); ok {
			own = strings.TrimSpace(path)
		}
	}
	return []hierarchy{
		{"/sys/fs/cgroup/memory" + own, "memory.limit_in_bytes", "memory.usage_in_bytes", "-1"},
		{"/sys/fs/cgroup", "memory.max", "memory.current", "max"},
	}
}

// newMemory makes the groups of a run, and notes them in its folder first.
func newMemory(dir string, nodes int) memory {
	var reasons []error
	for _, h := range listHierarchies() {
		m := memory{limit: h.limit, use: h.use, none: h.none}
		err := m.makeGroup(h.parent, dir, nodes)
		if err == nil {
			return m
		}
		reasons = append(reasons, err)
		_ = removeGroups(dir) // what was made before the error
	}
	return memory{without: fmt.Sprintf("no memory groups: %v", errors.Join(reasons...))}
}

func (m *memory) makeGroup(parent, dir string, nodes int) error {
	for i := range nodes {
		name := fmt.Sprintf("%s-%d", filepath.Base(dir), i+1)
		m.groups = append(m.groups, filepath.Join(parent, name))
	}
	note := []byte(strings.Join(m.groups, "\n") + "\n")
	if err := os.WriteFile(filepath.Join(dir, groupsFile), note, 0o600); err != nil {
		return err
	}
	for _, group := range m.groups {
		if err := os.Mkdir(group, 0o755); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(group, m.limit)); err != nil {
			return err
		}
	}
	return nil
}

// groupOf is the folder of a node's group, empty for none.
func (m *memory) groupOf(node int) string {
	if m.groups == nil {
		return ""
	}
	return m.groups[node]
}

// tightenNode leaves a node no more memory than it has now.
func (m *memory) tightenNode(node int) error {
	use, err := os.ReadFile(filepath.Join(m.groups[node], m.use))
	if err != nil {
		return err
	}
	return m.setLimit(node, strings.TrimSpace(string(use)))
}

func (m *memory) loosenNode(node int) error { return m.setLimit(node, m.none) }

func (m *memory) setLimit(node int, limit string) error {
	return os.WriteFile(filepath.Join(m.groups[node], m.limit), []byte(limit), 0o644)
}

// removeGroups removes the groups of a run, whose processes have ended.
func removeGroups(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, groupsFile))
	if err != nil {
		return nil // none were made
	}
	var faults []error
	for group := range strings.Lines(string(text)) {
		if err := os.Remove(strings.TrimSpace(group)); !errors.Is(err, os.ErrNotExist) {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}
