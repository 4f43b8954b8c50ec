// SPDX-License-Identifier: Apache-2.0

package test

import (
	"go/ast"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// securityRules is how many rules docs/security.md has.
const securityRules = 19

var (
	ruleRow  = regexp.MustCompile(`^\| ([0-9]+) \| (.*) \| ([^|]*) \|$`)
	testName = regexp.MustCompile("`((?:Test|Fuzz)[^`]+)`")
)

// TestSecurityRules wants every rule of docs/security.md to name tests that exist.
func TestSecurityRules(t *testing.T) {
	tree, err := loadTree(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	exists := testsOf(tree)
	rules := 0
	for line := range strings.Lines(string(page)) {
		row := ruleRow.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil || !strings.Contains(row[3], "`Test") {
			continue // of another table, or missed below
		}
		rules++
		if row[1] != strconv.Itoa(rules) {
			t.Errorf("rule %s stands where rule %d should", row[1], rules)
		}
		for _, name := range testName.FindAllStringSubmatch(row[3], -1) {
			if !exists[name[1]] {
				t.Errorf("rule %d names %s, and there is no such test", rules, name[1])
			}
		}
	}
	if rules != securityRules {
		t.Errorf("%d rules name tests, want %d", rules, securityRules)
	}
}

// testsOf lists the tests and fuzz targets of the module, and as TestNetwork/NAME
// the cases of the suite that every transport passes.
func testsOf(tree *sourceTree) map[string]bool {
	all := map[string]bool{}
	for _, p := range tree.packages {
		for _, f := range p.files {
			for _, d := range f.syntax.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Recv != nil {
					continue
				}
				if f.isTest() {
					all[fn.Name.Name] = true
				}
				if p.path != "internal/transporttest" || fn.Name.Name != "suite" {
					continue
				}
				ast.Inspect(fn, func(n ast.Node) bool {
					if s, ok := n.(*ast.BasicLit); ok {
						all["TestNetwork/"+strings.Trim(s.Value, `"`)] = true
					}
					return true
				})
			}
		}
	}
	return all
}
