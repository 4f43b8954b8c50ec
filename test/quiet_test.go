// SPDX-License-Identifier: Apache-2.0

package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// toleratedWrites are functions of linked dependencies that refer to the log of the process or
// to standard error, with the reason why they write nothing.
var toleratedWrites = map[string]string{
	"github.com/mattn/go-colorable.NewColorableStderr":           "not called",
	"github.com/quic-go/quic-go.ReadPacket":                      "if the kernel breaks its format",
	"github.com/quic-go/quic-go.wrapConn":                        "off by a variable",
	"github.com/quic-go/quic-go/internal/utils.SetLogTimeFormat": "not called",
	"github.com/quic-go/quic-go/internal/utils.logMessage":       "only with QUIC_GO_LOG_LEVEL",
	"github.com/quic-go/quic-go/internal/utils.readLoggingEnv":   "only with QUIC_GO_LOG_LEVEL",
	"github.com/quic-go/quic-go/qlog.DefaultConnectionTracer":    "nodes have no tracer",
	"github.com/quic-go/quic-go/qlogwriter.Run":                  "nodes have no tracer",
	"github.com/rs/zerolog.NewConsoleWriter":                     "the caller sets the output",
	"github.com/rs/zerolog.Write":                                "the caller sets the output",
	"github.com/rs/zerolog.msg":                                  "if the log cannot be written",
	"github.com/spf13/cobra.CheckErr":                            "not called",
	"github.com/spf13/cobra.CompDebug":                           "only for shells",
	"github.com/spf13/cobra.ErrOrStderr":                         "athena sets the output",
	"github.com/spf13/cobra.OutOrStderr":                         "athena sets the output",
	"github.com/spf13/pflag.Output":                              "athena sets the output",
	"github.com/spf13/pflag.init":                                "cobra prints usage",
	"github.com/vmihailenco/msgpack/v5.getFields":                "receiver refuses such types",
	"github.com/vmihailenco/msgpack/v5.warnIfFieldExists":        "receiver refuses such types",
	"golang.org/x/sys/cpu.processOptions":                        "only with GODEBUG",
}

// TestDependenciesAreQuiet checks that no package that athena links writes to the log of the
// process or to standard error: the line would break a log of JSON, and the output of a command.
func TestDependenciesAreQuiet(t *testing.T) {
	t.Parallel()
	const format = `{{if .Module}}{{if not .Module.Main}}{{.ImportPath}} {{.Dir}}{{range .GoFiles}} ` +
		`{{.}}{{end}}{{end}}{{end}}`
	files := 0
	found := map[string]bool{}
	packages := goCommand(t, "..", "list", "-deps", "-f", format, "./cmd/athena")
	for line := range strings.Lines(packages) {
		words := strings.Fields(line)
		for _, name := range words[min(2, len(words)):] {
			files++
			for _, function := range noisyFunctions(t, filepath.Join(words[1], name), nil) {
				found[words[0]+"."+function] = true
			}
		}
	}
	if files < 100 {
		t.Fatalf("read %d files of dependencies, want hundreds", files)
	}
	for _, function := range slices.Sorted(maps.Keys(found)) {
		if toleratedWrites[function] == "" {
			t.Errorf("%s refers to the log of the process or to standard error: use another package, or "+
				"add it to toleratedWrites with the reason why nothing is written", function)
		}
	}
	for function := range toleratedWrites {
		if !found[function] {
			t.Errorf("%s: the exception is not needed: delete it", function)
		}
	}
}

// noisyFunctions returns the functions of a file that refer to the standard logger or to standard
// error; "init" for code outside of functions. If src is nil, it reads the file.
func noisyFunctions(t *testing.T, file string, src any) (names []string) {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	local := map[string]string{} // the name in this file of a package that can write
	for _, s := range syntax.Imports {
		switch p := importPath(s); {
		case p != "log" && p != "os" && p != "log/slog":
		case s.Name != nil:
			local[s.Name.Name] = path.Base(p)
		default:
			local[path.Base(p)] = path.Base(p)
		}
	}
	for _, d := range syntax.Decls {
		name, isNoisy := "init", false
		if f, ok := d.(*ast.FuncDecl); ok {
			name = f.Name.Name
		}
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				id, ok := n.Fun.(*ast.Ident)
				isNoisy = isNoisy || ok && (id.Name == "println" || id.Name == "print")
			case *ast.SelectorExpr:
				if id, ok := n.X.(*ast.Ident); ok {
					isNoisy = isNoisy || writesOutside(local[id.Name], n.Sel.Name)
				}
			}
			return true
		})
		if isNoisy {
			names = append(names, name)
		}
	}
	return names
}

// writesOutside reports whether a name of package log, log/slog or os stands for standard error or
// for the logger of the process.
func writesOutside(pkg, name string) bool {
	switch pkg {
	case "os":
		return name == "Stderr"
	case "log":
		return name != "New" && name != "Logger" && !strings.HasPrefix(name, "L")
	case "slog":
		return slices.Contains([]string{
			"Default", "SetDefault", "Debug", "Info", "Warn", "Error", "Log", "LogAttrs",
			"DebugContext", "InfoContext", "WarnContext", "ErrorContext",
		}, name)
	}
	return false
}

// TestNoisyFunctions plants what TestDependenciesAreQuiet must find.
func TestNoisyFunctions(t *testing.T) {
	t.Parallel()
	const source = `package p

import (
	"log"
	"log/slog"
	out "os"
)

var start = func() int { log.Printf("INFO: disabled"); return 0 }()

func quiet() *log.Logger  { return log.New(out.Stdout, "", log.LstdFlags) }
func logs()               { log.Println() }
func (t T) structured()   { slog.Info("") }
func standardError()      { _, _ = out.Stderr.Write(nil) }
func prints()             { println() }
func other(log T)         { slog.New(nil).Info("") }
`
	got := noisyFunctions(t, "p.go", source)
	want := []string{"init", "logs", "structured", "standardError", "prints"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
