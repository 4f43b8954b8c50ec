// SPDX-License-Identifier: Apache-2.0

package results

import (
	"errors"
	"strings"
	"testing"
)

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
		if got := Quantile(c.values, c.q); got != c.want {
			t.Errorf("Quantile(%v, %v) = %v, want %v", c.values, c.q, got, c.want)
		}
	}
}

// TestRatios checks that each line is compared with the reference of its own group, after a
// round trip through the file.
func TestRatios(t *testing.T) {
	var file strings.Builder
	for _, r := range []Row{
		{"measurement": "failover"},
		{"n": 3, "peer": "a", "ms": 300.0}, {"n": 3, "peer": "b", "ms": 450.0},
		{"n": 3, "peer": "a", "ms": 100.0}, {"n": 3, "peer": "a", "ms": 200.0},
		{"n": 5, "peer": "a", "ms": 0.0}, {"n": 5, "peer": "b", "ms": 1.0},
		{"n": 9, "peer": "b", "ms": 1.0}, {"n": 9, "peer": "a", "missed": "timed out"},
	} {
		if err := r.Write(&file); err != nil {
			t.Fatal(err)
		}
	}
	about, rows, err := Read(strings.NewReader(file.String()))
	if err != nil || about["measurement"] != "failover" || len(rows) != 8 {
		t.Fatalf("Read: %v, %d rows, %v, want failover and 8 rows", about, len(rows), err)
	}
	var out strings.Builder
	table := Table{Column: "ms", Means: "time", Keys: []string{"n", "peer"}, Against: "a"}
	if err := table.Print(&out, rows); err != nil {
		t.Fatal(err)
	}
	const want = `
ms: time
n  peer  count  min     median  p99     max     ratio to a
3  a     3      100.00  200.00  300.00  300.00  1.00
3  b     1      450.00  450.00  450.00  450.00  2.25
5  a     1      0.00    0.00    0.00    0.00    -
5  b     1      1.00    1.00    1.00    1.00    -
9  b     1      1.00    1.00    1.00    1.00    -
`
	if out.String() != want {
		t.Errorf("got %s\nwant %s", out.String(), want)
	}
}

func TestReadRefuses(t *testing.T) {
	if _, _, err := Read(strings.NewReader("")); !errors.Is(err, ErrNoRows) {
		t.Errorf("an empty file: got %v, want %v", err, ErrNoRows)
	}
	_, _, err := Read(strings.NewReader("{\"n\":1}\nn=2\n"))
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a line that is no JSON: got %v, want the number of the line", err)
	}
}

func TestDescribe(t *testing.T) {
	about := Describe()
	for _, column := range []string{"date", "commit", "go", "processors", "processor", "kernel"} {
		if v := about[column]; v == nil || v == "" || v == 0 {
			t.Errorf("%s: %v, want a value", column, v)
		}
	}
	if title := about.Title(); strings.Contains(title, "%!") {
		t.Errorf("Title: %q", title)
	}
}
