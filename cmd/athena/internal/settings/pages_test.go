// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// The files that document the configuration, relative to this package.
const (
	examplePath = "../../../../examples/athena.yaml"
	pagePath    = "../../../../docs/configuration.md"
)

// ownDefault matches the default in the usage text of a flag.
var ownDefault = regexp.MustCompile(`\s*\(default (.*)\)$`)

// rowOf returns the line for a flag in docs/configuration.md.
func rowOf(f *pflag.Flag) string {
	_, use := pflag.UnquoteUsage(f)
	value := "`" + f.DefValue + "`"
	if m := ownDefault.FindStringSubmatch(use); m != nil {
		value, use = strings.ReplaceAll(m[1], "of --profile", "of `profile`"), use[:len(use)-len(m[0])]
	} else if f.DefValue == "" || f.DefValue == "0" {
		value = ""
	}
	return fmt.Sprintf("| `%s` | %s | %s |\n", f.Name, value, use)
}

// TestConfigurationPage checks that the table in docs/configuration.md matches the flags.
func TestConfigurationPage(t *testing.T) {
	page, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	const head = "| key | default | meaning |\n|:--|:--|:--|\n"
	want := head
	flags := Flags()
	for _, name := range Settable(flags) {
		if name != ConfigFlag {
			want += rowOf(flags.Lookup(name))
		}
	}
	_, rest, _ := strings.Cut(string(page), head)
	table, _, _ := strings.Cut(rest, "\n\n")
	if got := head + strings.TrimSuffix(table, "\n") + "\n"; got != want {
		t.Errorf("%s has\n%s\nwant\n%s", pagePath, got, want)
	}
}

// TestExampleFile checks that the example contains every key, and that keys that are commented out
// have their defaults.
func TestExampleFile(t *testing.T) {
	text, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^#([a-z-]+:)`).ReplaceAll(text, []byte("$1"))
	p := parseFile(examplePath, all)
	values, wrong := p.values, p.faults
	if len(wrong) > 0 {
		t.Errorf("without #: %v", wrong)
	}
	var keys []string
	s, effective := parsed(t, "--addr", "10.0.0.1:7000", "--size", "3", "--insecure-anywhere",
		"--seeds", "10.0.0.1:7000")
	c, err := s.Read(effective, in(nil))
	if err != nil {
		t.Fatal(err)
	}
	s.config = c.WithDefaults() // the flags point into s.config
	for _, v := range values {
		keys = append(keys, v.flag)
		inUse := bytes.Contains(text, []byte("\n"+v.flag+":"))
		want := []string{Flags().Lookup(v.flag).DefValue, effective.Lookup(v.flag).Value.String()}
		if !inUse && !slices.Contains(want, strings.Join(v.texts, ",")) {
			t.Errorf("%s: commented out with %q, want the default, one of %q", v.flag, v.texts, want)
		}
	}
	for _, name := range Settable(Flags()) {
		if name != ConfigFlag && !slices.Contains(keys, name) {
			t.Errorf("%s: no line %s:", examplePath, name)
		}
	}
}
