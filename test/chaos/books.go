// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// auditFolder reads all evidence of a folder. What the run must have left and is not
// there is an error: less evidence would look like fewer faults.
func auditFolder(dir string) (*findings, error) {
	if _, err := os.Stat(filepath.Join(dir, planFile)); err != nil {
		return nil, missingFile(err)
	}
	nodes, clusters, err := readJournal(filepath.Join(dir, journalFile))
	if err != nil {
		return nil, err
	}
	f, err := readBooks(dir, nodes)
	if err != nil || clusters == 1 {
		return f, err
	}
	other, err := readBooks(filepath.Join(dir, otherDir), nodes)
	if err != nil {
		return nil, err
	}
	f.compareOther(other)
	return f, nil
}

// readBooks checks all evidence of one cluster.
func readBooks(dir string, nodes int) (*findings, error) {
	var books []string
	for i := range nodes {
		books = append(books, nodeName(i)+".jsonl")
	}
	f := newFindings()
	// The register last: its writes are compared with what the nodes say.
	for _, name := range append(books, registerBook) {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, missingFile(err)
		}
		err = f.readBook(name, file)
		file.Close()
		if err != nil {
			return nil, err
		}
	}
	if f.seats.size != nodes {
		return nil, fmt.Errorf("%s says %d nodes, and the nodes in %s say %d: evidence of two runs",
			journalFile, nodes, dir, f.seats.size)
	}
	f.checkAll()
	return f, nil
}

// missingFile says which file is not there.
func missingFile(err error) error {
	var at *fs.PathError
	if errors.Is(err, fs.ErrNotExist) && errors.As(err, &at) {
		return fmt.Errorf("evidence missing: %s", at.Path)
	}
	return err
}

// readJournal returns the numbers of nodes and of clusters in the journal's first line.
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
		return 0, 0, fmt.Errorf("%s line 1: %q: does not say how many nodes and clusters there were",
			path, line)
	}
	return nodes, clusters, nil
}
