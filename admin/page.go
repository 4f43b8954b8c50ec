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

// ui holds the files of the dashboard.
//
//go:embed ui
var ui embed.FS

// pagePolicy is the Content-Security-Policy of the page. The page sends requests only to its own
// origin, runs no inline scripts and cannot be framed.
const pagePolicy = "default-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; object-src 'none'"

// pageTypes maps file extensions to content types, since the system's MIME table may differ.
var pageTypes = map[string]string{
	".html":    "text/html; charset=utf-8",
	".css":     "text/css; charset=utf-8",
	".js":      "text/javascript; charset=utf-8",
	".svg":     "image/svg+xml",
	".LICENSE": "text/plain; charset=utf-8",
}

// Page returns the handler of the dashboard at "/" and of its files at "/ui/". The page uses the
// API at /v1/nodes and below, which New serves.
func Page() http.Handler { return http.HandlerFunc(servePage) }

// isPage reports whether a request is for a file of the page. It returns false for paths that are
// not clean.
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
	h.Set("Cache-Control", "no-cache") // the files change with each release
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// openAPI is the OpenAPI document of the admin API. A test compares it with the handlers.
//
//go:embed openapi.json
var openAPI []byte

func serveDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(openAPI) // an error means that the caller is gone
}
