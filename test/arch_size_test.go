// SPDX-License-Identifier: Apache-2.0

package test

import (
	"go/ast"
	"unicode/utf8"
)

// The limits of STYLE.md. A tab counts as one column. There are no exceptions: in every consensus
// code base that we studied, the worst file mixes state machine, dispatch and bookkeeping.
const (
	maxFileLines     = 500
	maxTestFileLines = 1000
	maxFuncLines     = 70
	maxColumns       = 100
)

func checkSizes(t *sourceTree, report reporter) {
	for _, p := range t.packages {
		for _, f := range p.files {
			limit := maxFileLines
			if f.isTest() {
				limit = maxTestFileLines
			}
			if n := len(f.lines); n > limit {
				report(f.path, "%d lines, the limit is %d", n, limit)
			}
			checkColumns(f, report)
			checkFunctions(t, f, report)
		}
	}
}

func checkColumns(f *sourceFile, report reporter) {
	for i, line := range f.lines {
		if n := utf8.RuneCountInString(line); n > maxColumns {
			report(f.at(i), "%d columns, the limit is %d", n, maxColumns)
		}
	}
}

func checkFunctions(t *sourceTree, f *sourceFile, report reporter) {
	for n := range ast.Preorder(f.syntax) {
		var name string
		switch n := n.(type) {
		case *ast.FuncDecl:
			name = n.Name.Name
		case *ast.FuncLit:
			name = "a function literal"
		default:
			continue
		}
		lines := t.fset.Position(n.End()).Line - t.fset.Position(n.Pos()).Line + 1
		if lines > maxFuncLines {
			report(t.at(n.Pos()), "%s has %d lines, the limit is %d", name, lines, maxFuncLines)
		}
	}
}
