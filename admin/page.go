// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"embed"
	"net/http"
	"path"
	"strings"
	"time"
)

// ui is the dashboard as it is served: nothing of it is made at run time.
//
//go:embed ui
var ui embed.FS

// pagePolicy lets the page load and ask only where it came from, run no script that
// is not a file of its own, and be shown within no other page.
const pagePolicy = "default-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; object-src 'none'"

// pageTypes are the types of its files, by their ends. Those of the system may lack
// or change some.
var pageTypes = map[string]string{
	".html":    "text/html; charset=utf-8",
	".css":     "text/css; charset=utf-8",
	".js":      "text/javascript; charset=utf-8",
	".svg":     "image/svg+xml",
	".LICENSE": "text/plain; charset=utf-8",
}

// Page answers "/" with the dashboard, and "/ui/" with its parts. The page asks for
// /v1/nodes and what is below; New has all of it.
func Page() http.Handler { return http.HandlerFunc(servePage) }

// isPage reports whether a request is for a file of the page, and for nothing that a
// path with dots would lead to.
func isPage(r *http.Request) bool {
	p := r.URL.Path
	return p == "/" || strings.HasPrefix(p, "/ui/") && path.Clean(p) == p
}

func servePage(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "ui/index.html"
	}
	kind := pageTypes[path.Ext(name)]
	text, err := ui.ReadFile(name)
	if err != nil || kind == "" {
		notFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache") // the next version of the program has another page
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}
