// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A sourceTree is the source of the module.
type sourceTree struct {
	module   string // the module path, from go.mod
	mod      string // the text of go.mod
	fset     *token.FileSet
	packages []*sourcePackage // sorted by path
	texts    []*sourceFile    // all text files, Go or not
}

// A sourcePackage is a folder with Go files, including tests.
type sourcePackage struct {
	path  string // relative to the module: "transport/quicnet"
	files []*sourceFile
}

// A sourceFile is a file. syntax is nil if it is not a Go file.
type sourceFile struct {
	path   string // relative to the module, with slashes
	lines  []string
	syntax *ast.File
}

var modulePath = regexp.MustCompile(`(?m)^module (\S+)$`)

// loadTree reads the module whose root is fsys, and the modules in contrib, scripts and test as
// if they were part of it. Like the go command, it ignores hidden folders, testdata, and other
// nested modules.
func loadTree(fsys fs.FS) (*sourceTree, error) {
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, err
	}
	match := modulePath.FindSubmatch(mod)
	if match == nil {
		return nil, errors.New("go.mod names no module")
	}
	tree := &sourceTree{module: string(match[1]), mod: string(mod), fset: token.NewFileSet()}
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipFolder(fsys, name):
			return fs.SkipDir
		case d.IsDir() || !isText(name):
			return nil
		}
		return tree.add(fsys, name)
	})
	slices.SortFunc(tree.packages, func(a, b *sourcePackage) int {
		return strings.Compare(a.path, b.path)
	})
	return tree, err
}

func skipFolder(fsys fs.FS, name string) bool {
	if name == "." {
		return false
	}
	switch base := path.Base(name); {
	case strings.HasPrefix(base, "."), strings.HasPrefix(base, "_"):
		return true
	case base == "testdata", name == "bin", name == "results":
		return true
	}
	_, err := fs.Stat(fsys, path.Join(name, "go.mod"))
	return err == nil && !slices.Contains([]string{"contrib", "scripts", "test"}, path.Dir(name))
}

func isText(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".puml", ".sh", ".yml", ".yaml", ".html", ".js", ".css":
		return true
	}
	return path.Base(name) == "Makefile" || path.Base(name) == "Dockerfile"
}

func (t *sourceTree) add(fsys fs.FS, name string) error {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	f := &sourceFile{path: name, lines: strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")}
	t.texts = append(t.texts, f)
	if path.Ext(name) != ".go" {
		return nil
	}
	f.syntax, err = parser.ParseFile(t.fset, name, text, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	p := t.find(path.Dir(name))
	if p == nil {
		p = &sourcePackage{path: path.Dir(name)}
		t.packages = append(t.packages, p)
	}
	p.files = append(p.files, f)
	return nil
}

// find returns the package at a path from the root, or nil.
func (t *sourceTree) find(pkg string) *sourcePackage {
	i := slices.IndexFunc(t.packages, func(p *sourcePackage) bool { return p.path == pkg })
	if i < 0 {
		return nil
	}
	return t.packages[i]
}

func (f *sourceFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// code lists the files of the package other than tests.
func (p *sourcePackage) code() []*sourceFile {
	return slices.DeleteFunc(slices.Clone(p.files), (*sourceFile).isTest)
}

// importPath returns the path in an import clause, without quotes.
func importPath(s *ast.ImportSpec) string {
	p, err := strconv.Unquote(s.Path.Value)
	if err != nil {
		return s.Path.Value
	}
	return p
}

// imports reports whether the file imports the path.
func (f *sourceFile) imports(name string) bool {
	return slices.ContainsFunc(f.syntax.Imports, func(s *ast.ImportSpec) bool {
		return importPath(s) == name
	})
}

// matches reports whether a pattern names a package. A pattern is a path, or "folder/..." for
// everything below a folder.
func matches(pattern, pkg string) bool {
	if folder, ok := strings.CutSuffix(pattern, "/..."); ok {
		return strings.HasPrefix(pkg, folder+"/")
	}
	return pattern == pkg
}
