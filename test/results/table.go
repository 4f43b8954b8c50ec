// SPDX-License-Identifier: Apache-2.0

package results

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Row is one line of a file of results.
type Row map[string]any

// maxRowBytes bounds a line that Read accepts.
const maxRowBytes = 1 << 20

// ErrNoRows is returned for a file without a description.
var ErrNoRows = errors.New("results: the file is empty")

// Write writes a row as a line of JSON.
func (r Row) Write(w io.Writer) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// Read reads a file of results: its description and the rows. Numbers become float64.
func Read(file io.Reader) (about Row, rows []Row, err error) {
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxRowBytes)
	for n := 1; lines.Scan(); n++ {
		var r Row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, nil, fmt.Errorf("results: line %d: %w", n, err)
		}
		rows = append(rows, r)
	}
	if err := lines.Err(); err != nil {
		return nil, nil, err
	}
	if len(rows) == 0 {
		return nil, nil, ErrNoRows
	}
	return rows[0], rows[1:], nil
}

// A Table prints the values of one column.
type Table struct {
	Column string
	Means  string // meaning of the column
	// Keys are the columns that identify a line of the table.
	Keys []string
	// Against, if not empty, is the value of the last key that marks the reference. Each median is
	// divided by the median of the reference, whose other keys are the same.
	Against string
}

// line is a line of a table.
type line struct {
	group  string    // all keys except the last
	name   string    // the last key
	values []float64 // ascending
}

// Print prints the statistics of each combination of keys. Combinations that differ only in the
// last key are adjacent. Otherwise the lines are in the order of the rows. Rows without a number in
// the column are skipped.
func (t Table) Print(w io.Writer, rows []Row) error {
	lines := t.group(rows)
	fmt.Fprintf(w, "\n%s: %s\n", t.Column, t.Means)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "%s\tcount\tmin\tmedian\tp99\tmax", strings.Join(t.Keys, "\t"))
	if t.Against != "" {
		fmt.Fprintf(out, "\tratio to %s", t.Against)
	}
	fmt.Fprintln(out)
	for _, l := range lines {
		v := l.values
		fmt.Fprintf(out, "%s%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f", l.group, l.name, len(v), v[0],
			Quantile(v, 0.5), Quantile(v, 0.99), v[len(v)-1])
		if t.Against != "" {
			fmt.Fprintf(out, "\t%s", t.ratio(lines, l))
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}

// group collects the values of each line. It lists groups, and the lines of each group, in the
// order of their first rows.
func (t Table) group(rows []Row) (lines []line) {
	for _, r := range rows {
		value, ok := r[t.Column].(float64)
		if !ok {
			continue
		}
		var group, name string
		for i, k := range t.Keys {
			if i == len(t.Keys)-1 {
				name = fmt.Sprint(r[k])
			} else {
				group += fmt.Sprint(r[k]) + "\t"
			}
		}
		i := slices.IndexFunc(lines, func(l line) bool { return l.group == group && l.name == name })
		if i < 0 {
			i = len(lines)
			lines = append(lines, line{group: group, name: name})
		}
		lines[i].values = append(lines[i].values, value)
	}
	var order []string // of the groups
	for _, l := range lines {
		slices.Sort(l.values)
		if !slices.Contains(order, l.group) {
			order = append(order, l.group)
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		return slices.Index(order, a.group) - slices.Index(order, b.group)
	})
	return lines
}

// ratio divides the median of a line by the median of the reference in the same group. It returns
// "-" if the group has no reference or the median of the reference is 0.
func (t Table) ratio(lines []line, l line) string {
	for _, other := range lines {
		if other.group != l.group || other.name != t.Against {
			continue
		}
		if base := Quantile(other.values, 0.5); base != 0 {
			return fmt.Sprintf("%.2f", Quantile(l.values, 0.5)/base)
		}
	}
	return "-"
}

// Quantile returns the q-quantile of ascending values by nearest rank. There must be at least one
// value.
func Quantile(ascending []float64, q float64) float64 {
	rank := int(math.Ceil(q * float64(len(ascending))))
	return ascending[max(rank, 1)-1]
}
