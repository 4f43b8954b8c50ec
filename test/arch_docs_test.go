// SPDX-License-Identifier: Apache-2.0

package test

import (
	"go/ast"
	"slices"
	"strings"
)

const licenseLine = "// SPDX-License-Identifier: Apache-2.0"

// checkDocumentation requires a license line at the top of each file, and a comment on every
// package and exported name. The comment on a name starts with that name.
func checkDocumentation(t *sourceTree, report reporter) {
	for _, p := range t.packages {
		documented := false
		for _, f := range p.files {
			if f.lines[0] != licenseLine {
				report(f.path+":1", "first line %q, want %q", f.lines[0], licenseLine)
			}
			if f.isTest() {
				continue
			}
			documented = documented || f.syntax.Doc != nil
			for _, d := range f.syntax.Decls {
				checkDeclaration(t, d, report)
			}
		}
		if code := p.code(); len(code) > 0 && !documented {
			report(code[0].path, "package %s has no doc comment", p.path)
		}
	}
}

func checkDeclaration(t *sourceTree, d ast.Decl, report reporter) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && exportedReceiver(d) && !startsWith(d.Doc, d.Name.Name) {
			report(t.at(d.Pos()), "%s needs a comment that starts with its name", d.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				checkType(t, d, s, report)
			case *ast.ValueSpec:
				checkValue(t, d, s, report)
			}
		}
	}
}

// exportedReceiver reports whether a function is visible to users: it has no receiver, or one of an
// exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

// startsWith reports whether the first word of a comment, after an optional article, is the name.
func startsWith(doc *ast.CommentGroup, name string) bool {
	words := strings.Fields(doc.Text())
	if len(words) > 1 && slices.Contains([]string{"A", "An", "The"}, words[0]) {
		words = words[1:]
	}
	return len(words) > 0 && strings.TrimSuffix(strings.TrimRight(words[0], ".,:;"), "'s") == name
}

func checkType(t *sourceTree, d *ast.GenDecl, s *ast.TypeSpec, report reporter) {
	doc := s.Doc
	if !d.Lparen.IsValid() {
		doc = d.Doc
	}
	if s.Name.IsExported() && !startsWith(doc, s.Name.Name) {
		report(t.at(s.Pos()), "%s needs a comment that starts with its name", s.Name)
	}
}

// checkValue accepts a comment for a whole group of names, or a comment at the end of each line.
func checkValue(t *sourceTree, d *ast.GenDecl, s *ast.ValueSpec, report reporter) {
	exported := slices.IndexFunc(s.Names, (*ast.Ident).IsExported)
	if exported < 0 {
		return
	}
	name, grouped := s.Names[exported].Name, d.Lparen.IsValid()
	var documented bool
	switch {
	case !grouped:
		documented = startsWith(d.Doc, name)
	case s.Doc != nil:
		documented = startsWith(s.Doc, name)
	default:
		documented = s.Comment != nil || d.Doc != nil
	}
	if !documented {
		report(t.at(s.Pos()), "%s needs a comment that starts with its name", name)
	}
}
