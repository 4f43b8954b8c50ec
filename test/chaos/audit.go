// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// auditFolder checks all evidence in a folder. Missing evidence is an error, because it would hide
// faults.
func auditFolder(dir string) (*findings, error) {
	if _, err := os.Stat(filepath.Join(dir, planFile)); err != nil {
		return nil, missingFile(err)
	}
	nodes, clusters, err := readJournal(filepath.Join(dir, journalFile))
	if err != nil {
		return nil, err
	}
	f, err := readCluster(dir, nodes)
	if err != nil || clusters == 1 {
		return f, err
	}
	other, err := readCluster(filepath.Join(dir, otherDir), nodes)
	if err != nil {
		return nil, err
	}
	f.compareOther(other)
	return f, nil
}

// readCluster checks all evidence of one cluster.
func readCluster(dir string, nodes int) (*findings, error) {
	f := newFindings()
	if err := readFile(dir, runnerEvidence, f.claims.takeNote); err != nil {
		return nil, err
	}
	for i := range nodes {
		if err := readFile(dir, nodeName(i)+".jsonl", f.takeLine); err != nil {
			return nil, err
		}
	}
	for _, host := range slices.Sorted(maps.Keys(f.claims.hosts)) {
		if err := readFile(dir, host+".jsonl", f.takeClaim); err != nil {
			return nil, err
		}
	}
	// The register comes last, because its writes are compared with the authority of nodes.
	if err := readFile(dir, registerEvidence, f.takeLine); err != nil {
		return nil, err
	}
	if f.seats.size != nodes {
		return nil, fmt.Errorf("%s lists %d nodes, but the nodes in %s have size %d: the evidence is "+
			"of two runs", journalFile, nodes, dir, f.seats.size)
	}
	f.checkAll()
	return f, nil
}

// readFile passes each line of a file of evidence to take.
func readFile(dir, name string, take func(evidence) error) error {
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return missingFile(err)
	}
	defer file.Close()
	return readEvidence(name, file, take)
}

// missingFile returns an error that names the missing file.
func missingFile(err error) error {
	var at *fs.PathError
	if errors.Is(err, fs.ErrNotExist) && errors.As(err, &at) {
		return fmt.Errorf("evidence missing: %s", at.Path)
	}
	return err
}

// readJournal reads the number of nodes and of clusters from the journal's first line.
func readJournal(path string) (nodes, clusters int, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, missingFile(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var at int64
	var seed uint64
	_, err = fmt.Sscanf(line, "%d "+journalStart, &at, &nodes, &seed, &clusters)
	if err != nil || nodes < 1 || nodes > maxNodes || clusters < 1 || clusters > 2 {
		return 0, 0, fmt.Errorf("%s line 1: %q: want the numbers of nodes and clusters",
			path, line)
	}
	return nodes, clusters, nil
}
