// SPDX-License-Identifier: Apache-2.0

package test

import (
	"go/ast"
	"go/token"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// isImportable reports whether programs are meant to import a package of the main module. Those in
// test are for its own tests.
func isImportable(p *sourcePackage) bool {
	for _, part := range []string{"internal", "contrib", "scripts", "test"} {
		if slices.Contains(strings.Split(p.path, "/"), part) {
			return false
		}
	}
	code := p.code()
	return len(code) > 0 && code[0].syntax.Name.Name != "main" &&
		!strings.HasPrefix(p.path, "cmd/") && !onlyDocumented(code)
}

// onlyDocumented reports whether a package consists only of a doc comment and tests.
func onlyDocumented(code []*sourceFile) bool {
	return len(code) == 1 && len(code[0].syntax.Decls) == 0
}

func countPackages(tree *sourceTree, note noter) (n int) {
	for _, p := range tree.packages {
		if isImportable(p) {
			note("    %s", p.path)
			n++
		}
	}
	return n
}

// countExported counts exported functions, types, constants, variables, and methods of exported
// types, as go doc lists them.
func countExported(tree *sourceTree, note noter) (total int) {
	for _, p := range tree.packages {
		if !isImportable(p) {
			continue
		}
		n := 0
		for _, f := range p.code() {
			for _, d := range f.syntax.Decls {
				n += countExportedIn(d)
			}
		}
		note("    %-30s %d", p.path, n)
		total += n
	}
	return total
}

func countExportedIn(d ast.Decl) (n int) {
	if f, ok := d.(*ast.FuncDecl); ok {
		if f.Name.IsExported() && (f.Recv == nil || ast.IsExported(receiverOf(f))) {
			return 1
		}
		return 0
	}
	for _, s := range d.(*ast.GenDecl).Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				n++
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() {
					n++
				}
			}
		}
	}
	return n
}

// receiverOf returns the name of a method's type.
func receiverOf(f *ast.FuncDecl) string {
	e := f.Recv.List[0].Type
	for {
		switch t := e.(type) {
		case *ast.StarExpr:
			e = t.X
		case *ast.IndexExpr:
			e = t.X
		case *ast.IndexListExpr:
			e = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}

// linkedPackages lists the packages of the module that package cluster imports, directly or not.
func linkedPackages(tree *sourceTree) (all []*sourcePackage) {
	seen := map[*sourcePackage]bool{}
	var add func(p *sourcePackage)
	add = func(p *sourcePackage) {
		if p == nil || seen[p] {
			return
		}
		seen[p], all = true, append(all, p)
		for _, f := range p.code() {
			for _, s := range f.syntax.Imports {
				if rest, ok := strings.CutPrefix(importPath(s), tree.module+"/"); ok {
					add(tree.find(rest))
				}
			}
		}
	}
	add(tree.find("cluster"))
	return all
}

// countStrayLinks counts the packages that package cluster imports from other rooms than its own.
func countStrayLinks(tree *sourceTree, note noter) (n int) {
	for _, p := range linkedPackages(tree) {
		if r := roomOf(p); r == nil || !r.linked {
			note("    %s", p.path)
			n++
		}
	}
	return n
}

// countContracts counts WhileLeader methods, except those that only call another one.
func countContracts(tree *sourceTree, note noter) (n int) {
	for _, f := range eachFunction(tree) {
		if f.decl.Name.Name == "WhileLeader" && len(f.decl.Body.List) > 1 {
			note("    %s", f.file.path)
			n++
		}
	}
	return n
}

// carriesTurn is the function of package cluster that applies the output of a turn.
const carriesTurn = "apply"

func countTurnCalls(tree *sourceTree, note noter) (n int) {
	found := false
	for _, f := range eachFunction(tree) {
		if path.Dir(f.file.path) != "cluster" || f.decl.Name.Name != carriesTurn {
			continue
		}
		found = true
		ast.Inspect(f.decl.Body, func(x ast.Node) bool {
			if _, ok := x.(*ast.CallExpr); ok {
				n++
			}
			return true
		})
	}
	if !found {
		note("    package cluster has no function %s: update carriesTurn", carriesTurn)
		return math.MaxInt32
	}
	return n
}

func countRoleSets(tree *sourceTree, _ noter) (n int) {
	for _, f := range eachFunction(tree) {
		// The become functions are in role.go and use setRole.
		if path.Dir(f.file.path) != "statemachine" || path.Base(f.file.path) == "role.go" {
			continue
		}
		ast.Inspect(f.decl.Body, func(x ast.Node) bool {
			a, ok := x.(*ast.AssignStmt)
			if !ok {
				return true
			}
			for _, to := range a.Lhs {
				s, ok := to.(*ast.SelectorExpr)
				if ok && s.Sel.Name == "role" && ast.Unparen(s.X).(*ast.Ident).Name == "m" {
					n++
				}
			}
			return true
		})
	}
	return n
}

// countDerivedTimings counts products and quotients of timings in the core.
func countDerivedTimings(tree *sourceTree, _ noter) (n int) {
	for _, f := range eachFunction(tree) {
		core := slices.Contains([]string{"statemachine", "paxos"}, path.Dir(f.file.path))
		if !core || strings.Contains(path.Base(f.file.path), "timing") {
			continue
		}
		ast.Inspect(f.decl.Body, func(x ast.Node) bool {
			b, ok := x.(*ast.BinaryExpr)
			if ok && (b.Op == token.MUL || b.Op == token.QUO) && (isTiming(b.X) || isTiming(b.Y)) {
				n++
			}
			return true
		})
	}
	return n
}

// isTiming reports whether an expression is a field of the timings.
func isTiming(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok &&
		(strings.HasSuffix(s.Sel.Name, "Timeout") || strings.HasSuffix(s.Sel.Name, "Interval"))
}

// fileSizes returns the line counts of all files except tests, in ascending order.
func fileSizes(tree *sourceTree) (lines []int) {
	for _, p := range tree.packages {
		for _, f := range p.code() {
			lines = append(lines, len(f.lines))
		}
	}
	slices.Sort(lines)
	return lines
}

func countBareWords(tree *sourceTree, _ noter) int {
	bare, all := 0, 0
	for _, f := range eachFunction(tree) {
		all++
		if f.decl.Name.Name != "main" && !strings.ContainsFunc(f.decl.Name.Name, unicode.IsUpper) {
			bare++
		}
	}
	return 100 * bare / all
}

// countNameHits runs grep -w over the core for the name of each of its unexported functions and
// counts the lines found, including the declaration. It returns the 90th percentile: a reader who
// follows a call reads that many lines.
func countNameHits(tree *sourceTree, note noter) int {
	core := func(path string) bool { return path == "statemachine" || path == "paxos" }
	lines := map[string]int{} // by word
	for _, p := range tree.packages {
		for _, f := range p.code() {
			for _, line := range f.lines {
				if core(p.path) {
					words := identifier.FindAllString(line, -1)
					slices.Sort(words)
					for _, word := range slices.Compact(words) {
						lines[word]++
					}
				}
			}
		}
	}
	var hits []int
	for _, f := range eachFunction(tree) {
		if name := f.decl.Name.Name; core(path.Dir(f.file.path)) && !ast.IsExported(name) {
			hits = append(hits, lines[name])
			if lines[name] > 20 {
				note("    %-30s %d", name, lines[name])
			}
		}
	}
	slices.Sort(hits)
	return hits[len(hits)*9/10]
}

var identifier = regexp.MustCompile(`\w+`)

// requireLine matches a line of go.mod that requires a module, except those with the comment
// indirect.
var requireLine = regexp.MustCompile(`(?m)^(?:require)?[ \t]+(\S+) v\S+$`)

// countRequired counts the modules that go.mod requires directly.
func countRequired(tree *sourceTree, note noter) (n int) {
	for _, match := range requireLine.FindAllStringSubmatch(tree.mod, -1) {
		note("    %s", match[1])
		n++
	}
	return n
}

// function is a function and its file.
type function struct {
	file *sourceFile
	decl *ast.FuncDecl
}

// eachFunction lists all functions and methods that have a body, except those in tests.
func eachFunction(tree *sourceTree) (all []function) {
	for _, p := range tree.packages {
		for _, f := range p.code() {
			for _, d := range f.syntax.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
					all = append(all, function{f, fn})
				}
			}
		}
	}
	return all
}
