// SPDX-License-Identifier: Apache-2.0

package test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/types"
	"slices"
	"strings"
	"sync"
)

// purePackages implement the node without side effects: the same inputs give the same outputs, on
// every machine and in every run. Otherwise the simulator would prove nothing about the code that
// ships. They are in the order of their imports.
var purePackages = []string{
	"member", "internal/fielderr", "paxos", "internal/message", "statemachine", "internal/lowest",
}

// clocklessPackages must not start goroutines or read the clock, but may do everything else.
var clocklessPackages = []string{"internal/wire"}

// pureImports lists the packages that a pure package may import, with the names that it may use;
// nil means all names. Anything not listed does I/O, locks or logs, or has not been needed yet.
var pureImports = map[string][]string{
	"bytes":           nil,
	"cmp":             nil,
	"encoding/binary": nil,
	"encoding/hex":    nil,
	"errors":          nil,
	"fmt":             {"Sprintf", "Sprint", "Errorf", "Appendf", "Stringer"},
	"hash/fnv":        nil,
	"iter":            nil,
	"maps":            {"Clone", "Copy", "Equal", "Keys"}, // Keys: see sortedKeys
	"math":            nil,
	"math/bits":       nil,
	"math/rand/v2":    {"New", "NewPCG", "PCG", "Rand", "Source"},
	"net":             {"JoinHostPort", "ParseIP", "SplitHostPort"}, // these only handle strings
	"slices":          nil,
	"strconv":         nil,
	"strings":         nil,
	"unicode":         nil,
	"unicode/utf8":    nil,
	"time":            timeValues,
}

// timeValues are the names of package time that only do arithmetic.
var timeValues = []string{
	"Duration", "Hour", "Microsecond", "Millisecond", "Minute", "Nanosecond", "Second", "Time",
	"Unix",
}

func checkPurity(t *sourceTree, report reporter) {
	checker := newTypeChecker(t)
	for _, name := range purePackages {
		if p := t.find(name); p != nil {
			checkPure(t, p, checker.check(p), report)
		}
	}
	for _, name := range clocklessPackages {
		if p := t.find(name); p != nil {
			checkClockless(t, p, checker.check(p), report)
		}
	}
}

func checkPure(t *sourceTree, p *sourcePackage, typed *typedPackage, report reporter) {
	if len(typed.errs) > 0 { // without types, the check could miss a map
		report(p.path, "does not type-check: %v", typed.errs[0])
	}
	for _, f := range p.code() {
		for _, s := range f.syntax.Imports {
			path := importPath(s)
			_, ok := pureImports[path]
			if !ok && !strings.HasPrefix(path, t.module+"/") {
				report(t.at(s.Pos()), "a pure package must not import %s", path)
			}
		}
		sorted := sortedKeys(f, typed)
		for n := range ast.Preorder(f.syntax) {
			if fault := impurity(n, typed); fault != "" {
				report(t.at(n.Pos()), "a pure package must not %s", fault)
			}
			if id, ok := n.(*ast.Ident); ok && typed.names(id, "maps", "Keys") && !sorted[id] {
				report(t.at(id.Pos()), "a pure package must not take keys in the order of a map")
			}
		}
	}
}

// impurity describes what a syntax node does that a pure package must not do, or returns "".
func impurity(n ast.Node, typed *typedPackage) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "start a goroutine"
	case *ast.ChanType: // without channel types there are no channels
		return "use a channel"
	case *ast.RangeStmt:
		if typed.isMap(n.X) {
			return "range over a map: its order is random"
		}
	case *ast.Ident:
		pkg, name := typed.global(n)
		if allowed := pureImports[pkg]; allowed != nil && !slices.Contains(allowed, name) {
			return "use " + pkg + "." + name
		}
	}
	return ""
}

// sortedKeys finds the uses of maps.Keys that do not depend on the order of the map. These are the
// arguments of slices.Sorted and slices.SortedFunc.
func sortedKeys(f *sourceFile, typed *typedPackage) map[*ast.Ident]bool {
	sorted := make(map[*ast.Ident]bool)
	for n := range ast.Preorder(f.syntax) {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			continue
		}
		fn := called(call)
		if !typed.names(fn, "slices", "Sorted") && !typed.names(fn, "slices", "SortedFunc") {
			continue
		}
		if keys, ok := call.Args[0].(*ast.CallExpr); ok {
			sorted[called(keys)] = true
		}
	}
	return sorted
}

// called returns the identifier after the dot in a call, such as f in x.f(), or nil.
func called(call *ast.CallExpr) *ast.Ident {
	if fn, ok := call.Fun.(*ast.SelectorExpr); ok {
		return fn.Sel
	}
	return nil
}

func checkClockless(t *sourceTree, p *sourcePackage, typed *typedPackage, report reporter) {
	for _, f := range p.code() {
		for n := range ast.Preorder(f.syntax) {
			switch n := n.(type) {
			case *ast.GoStmt:
				report(t.at(n.Pos()), "%s must not start a goroutine", p.path)
			case *ast.Ident:
				pkg, name := typed.global(n)
				if pkg == "time" && !slices.Contains(timeValues, name) {
					report(t.at(n.Pos()), "%s must not use time.%s", p.path, name)
				}
			}
		}
	}
}

// A typedPackage is the result of type-checking a package.
type typedPackage struct {
	pkg  *types.Package
	info types.Info
	errs []error
}

// isMap reports whether an expression is a map.
func (p *typedPackage) isMap(e ast.Expr) bool {
	typ := p.info.TypeOf(e)
	if typ == nil {
		return false
	}
	_, ok := typ.Underlying().(*types.Map)
	return ok
}

// global returns the package path and the name of the package-level object that an identifier
// denotes.
func (p *typedPackage) global(id *ast.Ident) (pkg, name string) {
	obj := p.info.Uses[id]
	if obj == nil || obj.Pkg() == nil || obj.Parent() != obj.Pkg().Scope() {
		return "", ""
	}
	return obj.Pkg().Path(), obj.Name()
}

// names reports whether an identifier denotes pkg.name.
func (p *typedPackage) names(id *ast.Ident, pkg, name string) bool {
	gotPkg, gotName := p.global(id)
	return gotPkg == pkg && gotName == name
}

// A typeChecker type-checks packages of the tree. It finds imports in the tree or, if they are not
// there, in the compiler's export data.
type typeChecker struct {
	tree *sourceTree
	done map[string]*typedPackage
}

// standardLibrary is shared, because loading export data takes longer than checking our
// packages.
var standardLibrary = sync.OnceValue(importer.Default)

func newTypeChecker(t *sourceTree) *typeChecker {
	return &typeChecker{tree: t, done: make(map[string]*typedPackage)}
}

func (c *typeChecker) check(p *sourcePackage) *typedPackage {
	if typed := c.done[p.path]; typed != nil {
		return typed
	}
	typed := &typedPackage{info: types.Info{
		Types: make(map[ast.Expr]types.TypeAndValue),
		Uses:  make(map[*ast.Ident]types.Object),
	}}
	c.done[p.path] = typed
	config := types.Config{
		Importer: c,
		Error:    func(err error) { typed.errs = append(typed.errs, err) },
	}
	var syntax []*ast.File
	for _, f := range p.code() {
		syntax = append(syntax, f.syntax)
	}
	// config.Error has already received this error.
	typed.pkg, _ = config.Check(c.tree.module+"/"+p.path, c.tree.fset, syntax, &typed.info)
	return typed
}

// Import implements types.Importer.
func (c *typeChecker) Import(path string) (*types.Package, error) {
	name, ours := strings.CutPrefix(path, c.tree.module+"/")
	if !ours {
		return standardLibrary().Import(path)
	}
	p := c.tree.find(name)
	if p == nil {
		return nil, fmt.Errorf("no package %s in the module", name)
	}
	return c.check(p).pkg, nil
}
