// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// groupsFile is a file in the folder of a run that lists its memory groups.
const groupsFile = "groups"

// memory limits the memory of nodes by cgroups of version 1 or 2, whichever this machine has.
type memory struct {
	groups  []string // folder of each node; empty if the machine has no cgroups
	limit   string   // name of the limit file
	use     string   // name of the usage file
	none    string   // contents of the limit file for no limit
	without string   // reason why there are no cgroups
}

// hierarchy is where cgroups of one version are created.
type hierarchy struct {
	parent, limit, use, none string
}

// listHierarchies lists the possible hierarchies. In version 1 the parent is the cgroup of this
// process. In version 2 it is the root, because other cgroups with processes cannot have children.
func listHierarchies() []hierarchy {
	own := "/"
	text, _ := os.ReadFile("/proc/self/cgroup") // without it, use the root
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

// newMemory creates the cgroups of a run. It first records them in the folder of the run.
func newMemory(dir string, nodes int) memory {
	var reasons []error
	for _, h := range listHierarchies() {
		m := memory{limit: h.limit, use: h.use, none: h.none}
		err := m.makeGroup(h.parent, dir, nodes)
		if err == nil {
			return m
		}
		reasons = append(reasons, err)
		_ = removeGroups(dir) // those created before the error
	}
	return memory{without: fmt.Sprintf("no memory cgroups: %v", errors.Join(reasons...))}
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

// groupOf returns the folder of a node's cgroup, or "".
func (m *memory) groupOf(node int) string {
	if m.groups == nil {
		return ""
	}
	return m.groups[node]
}

// limitNode limits a node to the memory that it uses now.
func (m *memory) limitNode(node int) error {
	use, err := os.ReadFile(filepath.Join(m.groups[node], m.use))
	if err != nil {
		return err
	}
	return m.setLimit(node, strings.TrimSpace(string(use)))
}

func (m *memory) unlimitNode(node int) error { return m.setLimit(node, m.none) }

func (m *memory) setLimit(node int, limit string) error {
	return os.WriteFile(filepath.Join(m.groups[node], m.limit), []byte(limit), 0o644)
}

// removeGroups removes the cgroups of a run, whose processes have ended. A process that exits
// leaves its cgroup after its namespace, so removeGroups waits until the cgroups are empty.
func removeGroups(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, groupsFile))
	if err != nil {
		return nil // none were created
	}
	var faults []error
	end := time.Now().Add(endTimeout)
	for group := range strings.Lines(string(text)) {
		group = strings.TrimSpace(group)
		err := os.Remove(group)
		for errors.Is(err, unix.EBUSY) && time.Now().Before(end) {
			time.Sleep(10 * time.Millisecond)
			err = os.Remove(group)
		}
		if !errors.Is(err, os.ErrNotExist) {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}
