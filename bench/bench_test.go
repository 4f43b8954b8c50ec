// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestMain lets the program of the tests be a node, as the measurements do.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := childMain(); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestFormation measures one cold start of real processes, and reads the rows.
func TestFormation(t *testing.T) {
	out := filepath.Join(t.TempDir(), "rows", "formation.jsonl")
	o, err := parse("formation", []string{"-n", "3", "-reps", "1", "-dir", t.TempDir(), "-out", out})
	if err != nil {
		t.Fatal(err)
	}
	if err := measure("formation", o); err != nil {
		t.Fatal(err)
	}
	rows := readRows(t, out)
	if len(rows) != 2 {
		t.Fatalf("%d rows, want one about the machine and one result: %v", len(rows), rows)
	}
	if rows[0]["measurement"] != "formation" || rows[0]["interval"] != "100ms" {
		t.Errorf("about the machine: %v, want formation at 100ms", rows[0])
	}
	if ms, ok := rows[1]["ms"].(float64); !ok || ms <= 0 || rows[1]["n"] != 3.0 {
		t.Errorf("result: %v, want n 3 and a time", rows[1])
	}
	if left, err := os.ReadDir(o.dir); err != nil || len(left) > 0 {
		t.Errorf("after the measurement: %v, %v, want no stores", left, err)
	}
}

func readRows(t *testing.T, path string) (rows []row) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var r row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%v in %q", err, lines.Text())
		}
		rows = append(rows, r)
	}
	return rows
}

func TestQuantile(t *testing.T) {
	twenty := make([]float64, 20)
	for i := range twenty {
		twenty[i] = float64(i + 1)
	}
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{[]float64{7}, 0.5, 7},
		{[]float64{7}, 0, 7},
		{[]float64{1, 2, 3}, 0.5, 2},
		{twenty, 0.5, 10},
		{twenty, 0.99, 20},
		{twenty, 1, 20},
	} {
		if got := quantile(c.values, c.q); got != c.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", c.values, c.q, got, c.want)
		}
	}
}
