// SPDX-License-Identifier: Apache-2.0

package test

import (
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// loggers are the packages that write log lines.
var loggers = []string{
	"cluster", "internal/diagnosis", "admin", "cmd/athena", "cmd/athena/internal/daemon",
}

// A logLine is a line that a program writes. If several lines share the code that adds fields, each
// may have only some of those fields.
type logLine struct {
	level, text string
	fields      []string
	shares      bool
	at          string
}

// A logSource is a package whose log lines are collected.
type logSource struct {
	tree    *sourceTree
	decls   map[string]ast.Node // functions and variables of the package
	lines   []logLine
	fields  map[string][]ast.Expr // the values of each field
	foul    reporter
	visited map[string]bool // declarations visited in search of the texts of a call
}

var (
	logRow = regexp.MustCompile(
		"(?m)^\\| `(DBG|INF|WRN|ERR) ([^`]+)` \\| ([^|]+) \\| [^|]+ \\| [^|]+ \\|$")
	fieldRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [^|]+ \\| (yes|in part|-) \\|$")
	logWord  = regexp.MustCompile("`([a-z_]+)`")
)

// logLevels maps the methods of slog.Logger that write a line to the names of their levels on a
// console. The map contains the level arguments of LogAttrs instead of LogAttrs itself.
var logLevels = map[string]string{
	"Debug": "DBG", "Info": "INF", "Warn": "WRN", "Error": "ERR",
	"LevelDebug": "DBG", "LevelInfo": "INF", "LevelWarn": "WRN", "LevelError": "ERR",
}

// partsOfConsole are the fields that zerolog.ConsoleWriter writes without quotes, at the start of a
// line.
var partsOfConsole = []string{"caller", "level", "message", "time"}

// otherLogMethods also write lines, but this test cannot read their calls.
var otherLogMethods = []string{
	"Log", "DebugContext", "InfoContext", "WarnContext", "ErrorContext",
}

// fieldFunctions are the functions of slog that create the field named by their first argument.
var fieldFunctions = []string{
	"Any", "Bool", "Float64", "Group", "GroupAttrs", "Int", "Int64", "String", "Time", "Uint64",
}

// errorField is the function that creates the field "error" and shortens its text.
const errorField = "ErrAttr"

// cutters are the functions that shorten texts from a peer for a log line.
var cutters = []string{"addressText", errorField, "PeerText", "OneLine"}

// TestLogsAreDocumented checks that docs/logs.md lists exactly the log lines of a node and of the
// daemon, with their levels and fields. Every line must shorten texts chosen by a peer.
func TestLogsAreDocumented(t *testing.T) {
	t.Parallel()
	tree, err := loadTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/logs.md")
	if err != nil {
		t.Fatal(err)
	}
	foul := func(where, format string, args ...any) { t.Errorf(where+": "+format, args...) }
	var lines []logLine
	used := map[string]bool{"time": true}
	fromPeers := map[string]string{}
	for _, m := range fieldRow.FindAllStringSubmatch(string(page), -1) {
		fromPeers[m[1]] = m[2]
	}
	for _, name := range loggers {
		s := readLogs(tree, tree.find(name), foul)
		lines = append(lines, s.lines...)
		for field, values := range s.fields {
			used[field] = true
			if fromPeers[field] == "" {
				t.Errorf("%s: field %q is not in docs/logs.md", name, field)
			}
			for _, v := range values {
				if !strings.HasPrefix(name, "cmd/") && mustCut(field, fromPeers[field], v) {
					t.Errorf("%s: a peer may choose the text of %q: see safetext.PeerText",
						tree.at(v.Pos()), field)
				}
			}
		}
	}
	for field := range fromPeers {
		if !used[field] {
			t.Errorf("field %q is in docs/logs.md, but no line has it", field)
		}
	}
	rows := logRows(string(page))
	compareLogs(t, lines, rows)
	wanted := wantedTexts(tree)
	for text := range rows {
		if !wanted[text] {
			t.Errorf("%q: no test expects this line", text)
		}
	}
}

// wantedTexts returns the strings in tests, and the texts of JSON lines in them.
func wantedTexts(tree *sourceTree) map[string]bool {
	texts := map[string]bool{}
	for _, name := range append(loggers, "test") {
		for _, f := range tree.find(name).files {
			if !f.isTest() {
				continue
			}
			for n := range ast.Preorder(f.syntax) {
				if e, ok := n.(ast.Expr); ok {
					text := constant(e)
					texts[text] = true
					if _, text, ok = strings.Cut(text, `"message":"`); ok {
						text, _, _ = strings.Cut(text, `"`)
						texts[text] = true
					}
				}
			}
		}
	}
	return texts
}

// mustCut reports whether the value of a field may contain an unshortened text of a peer.
func mustCut(field, fromPeer string, value ast.Expr) bool {
	if fromPeer == "-" || field == "votes" || field == "why" { // these consist of shortened parts
		return false
	}
	call, ok := value.(*ast.CallExpr)
	return !ok || !slices.Contains(cutters, calledName(call))
}

// logRows returns the log lines that a page lists.
func logRows(page string) map[string]logLine {
	rows := map[string]logLine{}
	for _, m := range logRow.FindAllStringSubmatch(page, -1) {
		row := logLine{level: m[1], text: m[2]}
		for _, f := range logWord.FindAllStringSubmatch(m[3], -1) {
			row.fields = append(row.fields, f[1])
		}
		rows[m[2]] = row
	}
	return rows
}

// compareLogs compares the lines of the source with the rows of the page.
func compareLogs(t *testing.T, lines []logLine, rows map[string]logLine) {
	t.Helper()
	written := map[string]bool{}
	missed := map[string][]string{} // indexed by the code that adds the field
	for _, l := range lines {
		row, ok := rows[l.text]
		if !ok {
			t.Errorf("%s: %s %q is not in docs/logs.md", l.at, l.level, l.text)
			continue
		}
		if written[l.text] {
			t.Errorf("%s: %q is written in two places", l.at, l.text)
		}
		written[l.text] = true
		if row.level != l.level {
			t.Errorf("%s: %q is %s, docs/logs.md has %s", l.at, l.text, l.level, row.level)
		}
		for _, f := range row.fields {
			if !slices.Contains(l.fields, f) {
				t.Errorf("%s: %q has no field %q, but docs/logs.md has it", l.at, l.text, f)
			}
		}
		more := slices.DeleteFunc(slices.Clone(l.fields), func(f string) bool {
			return slices.Contains(row.fields, f)
		})
		if before, second := missed[l.at]; second && l.shares {
			more = slices.DeleteFunc(more, func(f string) bool { return !slices.Contains(before, f) })
		}
		missed[l.at] = more
	}
	for at, fields := range missed {
		if len(fields) > 0 {
			t.Errorf("%s: docs/logs.md has no fields %q of this line", at, fields)
		}
	}
	for text := range rows {
		if !written[text] {
			t.Errorf("%q is in docs/logs.md, but no code writes it", text)
		}
	}
	if len(rows) == 0 {
		t.Error("docs/logs.md has no lines: the test reads the wrong page")
	}
}

// readLogs finds every line that a package writes.
func readLogs(tree *sourceTree, p *sourcePackage, foul reporter) *logSource {
	s := &logSource{
		tree: tree, foul: foul, decls: map[string]ast.Node{}, fields: map[string][]ast.Expr{},
	}
	var functions []*ast.FuncDecl
	for _, f := range p.code() {
		for _, d := range f.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				functions = append(functions, d)
				if d.Recv == nil {
					s.decls[d.Name.Name] = d
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR {
						s.decls[v.Names[0].Name] = v
					}
				}
			}
		}
	}
	for _, fn := range functions {
		s.readFunction(fn)
	}
	return s
}

// readFunction finds the lines of a function. The fields of a line are in the call that writes it.
// If that call takes a list of fields, they may be anywhere in the function. Such a function must
// write only one line.
func (s *logSource) readFunction(fn *ast.FuncDecl) {
	var calls, writes []*ast.CallExpr
	for n := range ast.Preorder(fn) {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			continue
		}
		calls = append(calls, c)
		switch name := calledName(c); {
		case !isLogger(c):
		case name == "LogAttrs", logLevels[name] != "":
			writes = append(writes, c)
		case slices.Contains(otherLogMethods, name):
			s.foul(s.tree.at(c.Pos()), "a line is written by Debug, Info, Warn, Error or LogAttrs")
		}
	}
	for _, c := range calls {
		s.addField(c, len(writes) > 0)
	}
	for _, write := range writes {
		var whole ast.Node = write
		if write.Ellipsis.IsValid() {
			whole = fn
			if len(writes) > 1 {
				s.foul(s.tree.at(write.Pos()), "a function writes one line, or each with fields of its own")
			}
		}
		s.addLines(fn, whole, write)
	}
}

// addField records the value of a field.
func (s *logSource) addField(c *ast.CallExpr, ofLine bool) {
	switch name := fieldOf(c); {
	case ofLine && slices.Contains(partsOfConsole, name):
		s.foul(s.tree.at(c.Pos()), "a field has no name that the console writes without quotes")
	case calledName(c) == errorField:
		s.fields[name] = append(s.fields[name], c)
	case name != "":
		s.fields[name] = append(s.fields[name], c.Args[len(c.Args)-1])
	case ofLine && isField(c):
		s.foul(s.tree.at(c.Pos()), "the name of a field does not change")
	}
}

// addLines records the lines that a call writes. whole is the code that contains their fields.
func (s *logSource) addLines(fn *ast.FuncDecl, whole ast.Node, write *ast.CallExpr) {
	l := logLine{at: s.tree.at(write.Pos()), level: logLevels[calledName(write)]}
	args := write.Args
	if calledName(write) == "LogAttrs" { // the level is the argument after the context
		if level, ok := args[1].(*ast.SelectorExpr); ok {
			l.level = logLevels[level.Sel.Name]
		}
		args = args[2:]
	}
	for _, a := range args[1:] {
		if _, isCall := a.(*ast.CallExpr); !isCall && !write.Ellipsis.IsValid() {
			s.foul(s.tree.at(a.Pos()), "a field is made by a function of slog")
		}
	}
	for n := range ast.Preorder(whole) {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			continue
		}
		if name := fieldOf(c); name != "" && !slices.Contains(l.fields, name) {
			l.fields = append(l.fields, name)
		}
	}
	if l.text = constant(args[0]); l.text != "" {
		s.lines = append(s.lines, l)
		return
	}
	s.visited = map[string]bool{}
	tabled := s.tabled(fn)
	if len(tabled) == 0 {
		s.foul(l.at, "the text of a line is a constant, or from a table of lines")
	}
	for _, one := range tabled {
		one.fields, one.at, one.shares = l.fields, l.at, true
		s.lines = append(s.lines, one)
	}
}

// tabled returns the lines that a declaration contains in the form {level, "text"}, and the lines
// of the functions and tables that it uses.
func (s *logSource) tabled(decl ast.Node) (list []logLine) {
	for n := range ast.Preorder(decl) {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || len(lit.Elts) < 2 {
			continue
		}
		level, ok := lit.Elts[0].(*ast.SelectorExpr)
		if text := constant(lit.Elts[1]); ok && text != "" && logLevels[level.Sel.Name] != "" {
			list = append(list, logLine{level: logLevels[level.Sel.Name], text: text})
		}
	}
	if _, isTable := decl.(*ast.ValueSpec); isTable {
		return list
	}
	for n := range ast.Preorder(decl) {
		if id, ok := n.(*ast.Ident); ok && s.decls[id.Name] != nil && !s.visited[id.Name] {
			s.visited[id.Name] = true
			list = append(list, s.tabled(s.decls[id.Name])...)
		}
	}
	return list
}

// calledName returns the name of the called function or method.
func calledName(c *ast.CallExpr) string {
	switch fn := c.Fun.(type) {
	case *ast.SelectorExpr:
		return fn.Sel.Name
	case *ast.Ident:
		return fn.Name
	}
	return ""
}

// fieldOf returns the field that a call adds to a line, or "".
func fieldOf(c *ast.CallExpr) string {
	switch {
	case calledName(c) == errorField:
		return "error"
	case isField(c):
		return constant(c.Args[0])
	}
	return ""
}

// isField reports whether a call creates a field with a function of slog.
func isField(c *ast.CallExpr) bool {
	fn, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || len(c.Args) < 2 || !slices.Contains(fieldFunctions, fn.Sel.Name) {
		return false
	}
	pkg, ok := fn.X.(*ast.Ident)
	return ok && pkg.Name == "slog"
}

// isLogger reports whether a called method belongs to a logger.
func isLogger(c *ast.CallExpr) bool {
	fn, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch x := fn.X.(type) {
	case *ast.SelectorExpr:
		return x.Sel.Name == "log"
	case *ast.Ident:
		return x.Name == "log"
	}
	return false
}

// constant returns the value of a string literal, or "".
func constant(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		left, right := constant(e.X), constant(e.Y)
		if e.Op == token.ADD && left != "" && right != "" {
			return left + right
		}
	}
	return ""
}

// TestLogsFindPlanted checks that TestLogsAreDocumented finds each kind of violation.
func TestLogsFindPlanted(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`n.log.InfoContext(ctx, "a")`:                                  "is written by",
		`n.log.Info("about " + x)`:                                     "is a constant",
		`n.log.LogAttrs(ctx, l, "a", x...); n.log.Info("b")`:           "one line",
		`n.log.Info("a", slog.String(x, x))`:                           "name of a field",
		`n.log.Info("a", slog.String("caller", x))`:                    "without quotes",
		`n.log.Info("a", "x", x)`:                                      "by a function of slog",
		`l := line{slog.LevelInfo, "a"}; n.log.LogAttrs(c, v, l.text)`: "",
	} {
		var found []string
		tree, err := loadTree(fstest.MapFS{
			"go.mod":         {Data: []byte("module example\n")},
			"cluster/log.go": {Data: []byte("package cluster\n\nfunc (n n) f(x string) { " + body + " }\n")},
		})
		if err != nil {
			t.Fatal(err)
		}
		s := readLogs(tree, tree.find("cluster"), func(_, format string, _ ...any) {
			found = append(found, format)
		})
		text := strings.Join(found, "\n")
		if (want == "") != (text == "") || !strings.Contains(text, want) {
			t.Errorf("%s\ngot %q, want %q", body, text, want)
		}
		if want == "" && (len(s.lines) != 1 || s.lines[0].text != "a" || s.lines[0].level != "INF") {
			t.Errorf("%s\ngot the lines %+v, want INF a", body, s.lines)
		}
	}
}
