// SPDX-License-Identifier: Apache-2.0

package test

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A plainWord is a turn of phrase that STYLE.md keeps out of comments, messages and pages. A match
// of pattern is reported, except in text that matches the field unless.
type plainWord struct {
	pattern *regexp.Regexp
	unless  *regexp.Regexp // nil: always wrong
	instead string
}

// quantity matches the end of a text in which "at once" means simultaneously, or "of which" refers
// to a number: "all of them at once", "each of which".
var quantity = regexp.MustCompile(`(?i)\b(all|both|every\w*|each|many|much|most|more|several|` +
	`some|few|any|first|last|one|two|three|four|five|six|seven|eight|nine|ten|half|none|` +
	`neither|part|rest|` +
	`multiple|together|[0-9]+)\b( \w+){0,3} (at once|of which)$`)

var plainWords = []plainWord{
	{regexp.MustCompile(`(?i)\b(whoever|whomever|whosoever|whom)\b`), nil,
		"name the actor: the caller, the voter, the process that holds the lease"},
	{regexp.MustCompile(`(?i)\bwho (has|had|have) no\b`), nil,
		"name the actor: a process without a lease"},
	{regexp.MustCompile(`(?i)\b(nobody|somebody|anybody)\b`), nil,
		"name the actor: no caller, another process, any member"},
	{regexp.MustCompile(`(?i)\b(is|are|was|were|be|been|being) told\b|\btold of\b`), nil,
		"learns, receives, is notified, is informed"},
	{regexp.MustCompile(`(?i)\btells\b`), regexp.MustCompile(`(?i)\btells \w+( \w+)? (apart|from)\b`),
		"reports, returns, logs, notifies, shows"},
	{regexp.MustCompile(`\b[Ss]ays\b`),
		regexp.MustCompile(`(?i)\b(page|section|document|comment|code|text|log|[a-z]+\.md\)?) says$`),
		"reports, returns, logs, states, is"},
	{regexp.MustCompile(`(?i)\b(goes|going|went|gone) on\b|\bgo on\b`),
		regexp.MustCompile(`(?i)\b(goes|going|go) on (line|page|top|the)\b`),
		"continues, happens"},
	{regexp.MustCompile(`(?i)\b(is|are|was|were) (none|so)([.,;:)]|$)`),
		regexp.MustCompile(`(?i)\bthere (is|are|was|were) none\W?$`),
		`"does not exist", "is true", or the condition itself`},
	{regexp.MustCompile(`(?i)\bany more\b`), regexp.MustCompile(`(?i)\bany more (\w+s|than)\b`),
		`"no longer" before the verb`},
	{regexp.MustCompile(`(?i)\banew\b`), nil, "again, from the beginning"},
	{regexp.MustCompile(`(?i)\bat once\b`), quantity, "immediately"},
	{regexp.MustCompile(`(?i)\bof which\b`), quantity, "whose, or a second sentence"},
	{regexp.MustCompile(`(?i)\bin the words of\b`), nil, "name the source"},
	{regexp.MustCompile(`(?i)\bfor as long as\b`), nil, "while"},
	{regexp.MustCompile(`(?i)\bwhat is known\b|\b(is|are) known of\b`), nil,
		"the known state, or its name"},
}

// notPlain returns the first phrase of a text that plainWords lists, and what to write
// instead, or two empty strings.
func notPlain(text string) (phrase, instead string) {
	for _, w := range plainWords {
		for _, at := range w.pattern.FindAllStringIndex(text, -1) {
			if w.unless == nil || !w.isAllowed(text, at) {
				return text[at[0]:at[1]], w.instead
			}
		}
	}
	return "", ""
}

// isAllowed reports whether unless matches the text that ends with a match, or the text that begins
// with it.
func (w plainWord) isAllowed(text string, at []int) bool {
	return w.unless.MatchString(text[:at[1]]) || w.unless.FindStringIndex(text[at[0]:]) != nil &&
		w.unless.FindStringIndex(text[at[0]:])[0] == 0
}

// plainExceptions are the places where a listed phrase is correct. The phrase is part of the line;
// an exception that matches nothing fails the test.
var plainExceptions = []struct{ file, phrase, reason string }{
	{"test/words_test.go", "", "it lists the words"},
	{"test/mutants/README.md", "-anybody", "the names of mutants and of their kept runs"},
	{"test/scenarios.md", "somebody DECISION", "a form of the scenario language"},
	{"test/scenarios.md", "nobody leads with authority", "a form of the scenario language"},
}

// TestPlainWords keeps the phrases of plainWords out of the comments and messages of all Go files
// and out of all pages but CHANGELOG.md. It only reads strings that contain a space, and in tests
// only those that a failing test prints.
func TestPlainWords(t *testing.T) {
	t.Parallel()
	tree, err := loadTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	used := make([]bool, len(plainExceptions))
	for _, f := range tree.texts {
		for line, text := range tree.readableTexts(f) {
			phrase, instead := notPlain(text)
			if phrase == "" || isExcepted(f.path, text, used) {
				continue
			}
			t.Errorf("%s:%d: %q: write instead: %s.\n\t%s\nRewrite the sentence with its subject first, "+
				"as the documentation of the Go standard library would. If the phrase is the right one, "+
				"add it to plainExceptions in test/words_test.go with the reason.",
				f.path, line, phrase, instead, strings.TrimSpace(text))
		}
	}
	for i, e := range plainExceptions {
		if !used[i] {
			t.Errorf("%s: the exception for %q is not needed: delete it", e.file, e.phrase)
		}
	}
}

func isExcepted(file, text string, used []bool) bool {
	for i, e := range plainExceptions {
		if e.file == file && strings.Contains(text, e.phrase) {
			used[i] = true
			return true
		}
	}
	return false
}

// readableTexts returns the texts of a file for human readers, by line: the comments and messages
// of Go, and Markdown. It omits Go code in Markdown, which is a copy of a Go file. Each text
// ends with the first word of the next line, so that a phrase is found across the end of a line.
func (t *sourceTree) readableTexts(f *sourceFile) map[int]string {
	texts := map[int]string{}
	switch {
	case path.Ext(f.path) == ".md" && f.path != "CHANGELOG.md":
		inGo := false
		for i, line := range f.lines {
			if strings.HasPrefix(line, "```") {
				inGo = line == "```go"
			}
			if !inGo {
				texts[i+1] = line
			}
		}
	case f.syntax != nil:
		for _, group := range f.syntax.Comments {
			for _, c := range group.List {
				for i, line := range strings.Split(c.Text, "\n") {
					texts[t.fset.Position(c.Pos()).Line+i] = line
				}
			}
		}
		for _, s := range messagesOf(f) {
			if text, err := strconv.Unquote(s.Value); err == nil {
				for i, line := range strings.Split(text, "\n") {
					texts[t.fset.Position(s.Pos()).Line+i] += " " + line
				}
			}
		}
	}
	return joinFirstWords(texts)
}

// joinFirstWords appends to each text the first word of the text on the next line.
func joinFirstWords(texts map[int]string) map[int]string {
	joined := make(map[int]string, len(texts))
	for line, text := range texts {
		joined[line] = text
		if words := strings.Fields(strings.TrimLeft(texts[line+1], "/ \t")); len(words) > 0 {
			joined[line] = strings.TrimRight(text, " ") + " " + words[0]
		}
	}
	return joined
}

// messagesOf returns the string literals that contain a space; in a test, only those in a call that
// prints a failure.
func messagesOf(f *sourceFile) (found []*ast.BasicLit) {
	add := func(n ast.Node) bool {
		s, ok := n.(*ast.BasicLit)
		if ok && s.Kind == token.STRING && strings.Contains(s.Value, " ") {
			found = append(found, s)
		}
		return true
	}
	if !f.isTest() {
		ast.Inspect(f.syntax, add)
		return found
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && printsFailure(call) {
			ast.Inspect(call, add)
			return false
		}
		return true
	})
	return found
}

func printsFailure(call *ast.CallExpr) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{
		"Error", "Errorf", "Fatal", "Fatalf", "Log", "Logf", "Skip", "Skipf",
	}, s.Sel.Name)
}

func TestPlainWordsFindsThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Whoever holds the lock":               "Whoever",
		"the processes of whom it knows":       "whom",
		"a node who has no lease":              "who has no",
		"nobody waits":                         "nobody",
		"the caller is told":                   "is told",
		"It tells the caller.":                 "tells",
		"what the frame says":                  "says",
		"The page says when to use it.":        "",
		"the loop goes on":                     "goes on",
		"if that is so, it waits":              "is so,",
		"the place that is none":               "is none",
		"or nil if there is none.":             "",
		"it is not needed any more":            "any more",
		"it starts anew":                       "anew",
		"It stops at once.":                    "at once",
		"the term of which it is the leader":   "of which",
		"for as long as it leads":              "for as long as",
		"what is known of a member":            "what is known",
		"All of them at once.":                 "",
		"two messages at once":                 "",
		"lists faults, each of which is fatal": "",
		"the interval is so large that":        "",
		"are there any more members":           "",
		"It tells them apart.":                 "",
		"a goes on the second line":            "",
		"the lease that it holds":              "",
	} {
		if got, _ := notPlain(text); got != want {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
}

// These are the word limits of README.md and of docs. The limit of docs excludes the protocol, the
// generated lists of log lines and of reports, the decisions, and the runbooks. An operator opens
// one runbook at a time. The goal for docs was 20,000; 1,500 are for compatibility, drills, regions
// and proxies, and 500 for what a newcomer could not find in events.md.
const (
	maxDocsWords   = 23_000
	maxReadmeWords = 900
)

// TestDocsWordCount checks that the pages stay short.
func TestDocsWordCount(t *testing.T) {
	t.Parallel()
	tree, err := loadTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	docs, readme := 0, 0
	for _, f := range tree.texts {
		n := len(strings.Fields(strings.Join(f.lines, "\n")))
		switch {
		case f.path == "README.md":
			readme = n
		case path.Ext(f.path) != ".md" || !strings.HasPrefix(f.path, "docs/"):
		case f.path == "docs/protocol.md", f.path == "docs/logs.md", f.path == "docs/field.md":
		case strings.HasPrefix(f.path, "docs/decisions/"), strings.HasPrefix(f.path, "docs/runbooks/"):
		default:
			docs += n
		}
	}
	t.Logf("docs %d of at most %d words, README.md %d of %d",
		docs, maxDocsWords, readme, maxReadmeWords)
	if docs > maxDocsWords || readme > maxReadmeWords {
		t.Errorf("docs have %d words, want at most %d; README.md %d, want at most %d: tell each fact "+
			"once and link to it", docs, maxDocsWords, readme, maxReadmeWords)
	}
}
