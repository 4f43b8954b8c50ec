// SPDX-License-Identifier: Apache-2.0

package test

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// realTimePackages contain the tests with real processes, the only tests that may wait in real
// time.
var realTimePackages = []string{"test"}

// checkShape forbids init functions, and package variables other than errors and tables, because
// their effects are invisible to the code that depends on them.
func checkShape(t *sourceTree, report reporter) {
	for _, p := range t.packages {
		for _, f := range p.code() {
			for _, d := range f.syntax.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Recv == nil && d.Name.Name == "init" {
						report(t.at(d.Pos()), "no init functions")
					}
				case *ast.GenDecl:
					if d.Tok == token.VAR {
						checkVariables(t, d, report)
					}
				}
			}
		}
	}
}

func checkVariables(t *sourceTree, d *ast.GenDecl, report reporter) {
	for _, spec := range d.Specs {
		s := spec.(*ast.ValueSpec)
		embedded := d.Doc != nil && slices.ContainsFunc(d.Doc.List, func(c *ast.Comment) bool {
			return strings.HasPrefix(c.Text, "//go:embed ")
		})
		if embedded || s.Names[0].Name == "_" {
			continue
		}
		variable := func(e ast.Expr) bool { return !isErrorOrTable(e) }
		if len(s.Values) == 0 || slices.ContainsFunc(s.Values, variable) {
			report(t.at(s.Pos()), "%s is a package variable; only errors and tables may be", s.Names[0])
		}
	}
}

// isErrorOrTable reports whether an expression creates an error or a table, or names an error
// of another package.
func isErrorOrTable(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CompositeLit:
		return true
	case *ast.SelectorExpr:
		return strings.HasPrefix(e.Sel.Name, "Err")
	case *ast.CallExpr:
		fn, ok := e.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		pkg, ok := fn.X.(*ast.Ident)
		return ok && slices.Contains([]string{
			"errors.New", "fmt.Errorf", "regexp.MustCompile", "strings.NewReplacer",
		}, pkg.Name+"."+fn.Sel.Name)
	}
	return false
}

// checkSleeps forbids tests that wait in real time. Files that import testing/synctest sleep in
// virtual time.
func checkSleeps(t *sourceTree, report reporter) {
	for _, p := range t.packages {
		for _, f := range p.files {
			if !f.isTest() || f.imports("testing/synctest") || slices.Contains(realTimePackages, p.path) {
				continue
			}
			for n := range ast.Preorder(f.syntax) {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
					if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "time" {
						report(t.at(s.Pos()), "a test must not sleep in real time: use testing/synctest")
					}
				}
			}
		}
	}
}

// The words are concatenated here so that this file does not contain them.
var (
	unfinished  = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK|TB` + `D)\b`)
	machinePath = regexp.MustCompile(`(^|[\s"'(=` + "`" + `])/(home|root|work|Users)/`)
)

// checkText forbids comments that promise future work, and paths of a particular machine in any
// text.
func checkText(t *sourceTree, report reporter) {
	for _, f := range t.texts {
		for i, line := range f.lines {
			if path := machinePath.FindString(line); path != "" {
				report(f.at(i), "a path of one machine: %s", strings.TrimSpace(path))
			}
		}
		if f.syntax == nil {
			continue
		}
		for _, group := range f.syntax.Comments {
			for _, c := range group.List {
				if word := unfinished.FindString(c.Text); word != "" {
					report(t.at(c.Pos()), "%s: finish it, or open an issue", word)
				}
			}
		}
	}
}
