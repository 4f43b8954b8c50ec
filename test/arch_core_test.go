// SPDX-License-Identifier: Apache-2.0

package test

import (
	"go/ast"
	"go/token"
	"go/types"
)

// roleFile is the only file that assigns the role of a machine.
const roleFile = "statemachine/role.go"

// checkCore wants the role of a machine to change in one file, where each transition
// refuses what is impossible.
func checkCore(t *sourceTree, report reporter) {
	checker := newTypeChecker(t)
	p := t.find("statemachine")
	if p == nil {
		return
	}
	typed := checker.check(p)
	for _, f := range p.code() {
		if f.path != roleFile {
			checkRole(t, f, typed, report)
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

// isField reports whether an expression selects a field of a named struct, or of a pointer
// to it.
func (p *typedPackage) isField(e ast.Expr, typeName, field string) bool {
	selector, ok := e.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == field && p.typeName(selector.X) == typeName
}

// typeName is the name of the type of an expression, or of what it points to; empty for a
// type without a name.
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
