// SPDX-License-Identifier: Apache-2.0

package test

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// roleFile is the only file that assigns the role of a machine.
const roleFile = "statemachine/role.go"

// timingFiles are the only files of the core that may compute one duration from another. The vote
// timeout of a proposer is part of its algorithm.
var timingFiles = []string{
	"statemachine/timing.go", "internal/message/timings.go", "paxos/proposer.go",
}

// checkCore checks two rules. Only roleFile assigns the role of a machine, because its functions
// refuse impossible transitions. Only timingFiles derive timings, because there each timing has a
// name and a reason.
func checkCore(t *sourceTree, report reporter) {
	checker := newTypeChecker(t)
	for _, name := range []string{"paxos", "internal/message", "statemachine"} {
		p := t.find(name)
		if p == nil {
			continue
		}
		typed := checker.check(p)
		for _, f := range p.code() {
			if name == "statemachine" && f.path != roleFile {
				checkRole(t, f, typed, report)
			}
			if !slices.Contains(timingFiles, f.path) {
				checkTimings(t, f, typed, report)
			}
		}
	}
}

// checkRole reports assignments of Machine.role, and pointers to it.
func checkRole(t *sourceTree, f *sourceFile, typed *typedPackage, report reporter) {
	for n := range ast.Preorder(f.syntax) {
		var targets []ast.Expr
		switch n := n.(type) {
		case *ast.AssignStmt:
			targets = n.Lhs
		case *ast.IncDecStmt:
			targets = []ast.Expr{n.X}
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				targets = []ast.Expr{n.X}
			}
		}
		for _, target := range targets {
			if typed.isField(target, "Machine", "role") {
				report(t.at(target.Pos()), "the role of a machine changes in %s only", roleFile)
			}
		}
	}
}

// checkTimings reports products and quotients of durations, and sums and differences of two
// configured timings.
func checkTimings(t *sourceTree, f *sourceFile, typed *typedPackage, report reporter) {
	for n := range ast.Preorder(f.syntax) {
		derives := false
		switch n := n.(type) {
		case *ast.BinaryExpr:
			derives = typed.isDuration(n) && (scales(n.Op) ||
				typed.isTiming(n.X) && typed.isTiming(n.Y))
		case *ast.AssignStmt:
			derives = n.Tok != token.ASSIGN && n.Tok != token.DEFINE &&
				typed.isDuration(n.Lhs[0]) && (scales(n.Tok) || typed.isTiming(n.Rhs[0]))
		}
		if derives {
			report(t.at(n.Pos()), "a timing is derived in %s only", timingFiles[0])
		}
	}
}

// scales reports whether an operator multiplies or divides.
func scales(op token.Token) bool {
	return slices.Contains([]token.Token{
		token.MUL, token.QUO, token.REM, token.SHL, token.SHR,
		token.MUL_ASSIGN, token.QUO_ASSIGN, token.REM_ASSIGN, token.SHL_ASSIGN, token.SHR_ASSIGN,
	}, op)
}

// isDuration reports whether an expression is a non-constant time.Duration.
func (p *typedPackage) isDuration(e ast.Expr) bool {
	typ := p.info.TypeOf(e)
	return typ != nil && typ.String() == "time.Duration" && p.info.Types[e].Value == nil
}

// isTiming reports whether an expression is a configured timing or derived from one.
func (p *typedPackage) isTiming(e ast.Expr) bool {
	if call, ok := e.(*ast.CallExpr); ok {
		e = call.Fun
	}
	s, ok := e.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Timings", "timing"}, p.typeName(s.X))
}

// isField reports whether an expression selects a field of a named struct or of a pointer to
// it.
func (p *typedPackage) isField(e ast.Expr, typeName, field string) bool {
	selector, ok := e.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == field && p.typeName(selector.X) == typeName
}

// typeName returns the name of the type of an expression, or "" if it has none. For a pointer,
// typeName returns the name of the type that it points to.
func (p *typedPackage) typeName(e ast.Expr) string {
	typ := p.info.TypeOf(e)
	if pointer, ok := typ.(*types.Pointer); ok {
		typ = pointer.Elem()
	}
	if named, ok := typ.(*types.Named); ok {
		return named.Obj().Name()
	}
	return ""
}
