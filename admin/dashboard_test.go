// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/athena-go/athena/admin"
)

var (
	pageLink  = regexp.MustCompile(`(?:href|src)="([^"#]+)"`)
	pageOther = regexp.MustCompile(`(?i)\b(?:https?|wss?):?//[^\s"')]+`)
	jsImport  = regexp.MustCompile(`(?m)from "\./([^"]+)"`)
	inline    = regexp.MustCompile(`(?i)<script>|<style|\sstyle=|\son[a-z]+=|javascript:`)
)

// TestPage follows every link of the page and every import of its modules. It checks that the
// policy of every file allows no other origin.
func TestPage(t *testing.T) {
	h := admin.New(leading(t), "")
	seen := map[string]bool{}
	queue := []string{"", "v1/nodes"}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		w := ask(h, "GET", "/"+name)
		kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
		if w.Code != http.StatusOK {
			t.Errorf("GET /%s: %d, want 200", name, w.Code)
		}
		if policy := w.Header().Get("Content-Security-Policy"); kind != "application/json" &&
			!strings.HasPrefix(policy, "default-src 'self';") || strings.Contains(policy, "unsafe") {
			t.Errorf("GET /%s: policy %q, want one that allows only this origin", name, policy)
		}
		switch kind {
		case "text/html":
			for _, m := range pageLink.FindAllStringSubmatch(w.Body.String(), -1) {
				queue = append(queue, m[1])
			}
			if bad := inline.FindString(w.Body.String()); bad != "" {
				t.Errorf("GET /%s: %q, which the policy forbids", name, bad)
			}
		case "text/javascript":
			for _, m := range jsImport.FindAllStringSubmatch(w.Body.String(), -1) {
				queue = append(queue, path.Join(path.Dir(name), m[1]))
			}
		case "text/css", "image/svg+xml", "application/json":
		default:
			t.Errorf("GET /%s: content type %q", name, kind)
		}
	}
	for _, want := range []string{"ui/main.js", "ui/beliefs.js", "ui/vendor/uPlot.iife.min.js"} {
		if !seen[want] {
			t.Errorf("/%s is not linked", want)
		}
	}
}

// TestPageFiles checks the files of the page against STYLE.md: our files are short and have a
// license line, vendored ones have a license file, and no file refers to another host.
func TestPageFiles(t *testing.T) {
	files := os.DirFS("ui")
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if strings.HasPrefix(name, "vendor/") {
			return nil
		}
		if n := bytes.Count(text, []byte("\n")); n > 500 {
			t.Errorf("ui/%s: %d lines, the limit is 500", name, n)
		}
		head := text[:min(len(text), 100)]
		licence := []byte("SPDX-License-Identifier: Apache-2.0")
		if path.Ext(name) != ".svg" && !bytes.Contains(head, licence) {
			t.Errorf("ui/%s: begins with %q, want the license", name, head)
		}
		for _, at := range pageOther.FindAllString(string(text), -1) {
			if at != "http://www.w3.org/2000/svg" { // the SVG namespace, not a request
				t.Errorf("ui/%s names %s", name, at)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := fs.Stat(files, "vendor/uPlot.LICENSE"); err != nil {
		t.Error(err)
	}
}
