// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/athena-go/athena/internal/adminapi"
)

// healthPaths are open to callers without the token, and with any Host: what probes a
// node, or sends work to it, has neither a token nor always a Host.
var healthPaths = []string{"/livez", "/readyz"}

func isHealth(r *http.Request) bool { return slices.Contains(healthPaths, r.URL.Path) }

// codeAlone answers with the status and the code of an error, and a fixed text in place of
// its own, which may name members and what it takes to reach them. It is for health checks
// of callers that may know no more.
func codeAlone(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := answer{header: http.Header{}, status: http.StatusOK}
		next.ServeHTTP(&a, r)
		if a.status == http.StatusOK {
			writeOK(w)
			return
		}
		var e adminapi.ErrorBody
		_ = json.Unmarshal(a.body.Bytes(), &e) // the zero value where it is no error of ours
		if allow := a.header.Get("Allow"); allow != "" {
			w.Header().Set("Allow", allow)
		}
		adminapi.WriteError(w, a.status, e.Code, strings.ToLower(http.StatusText(a.status)))
	})
}

// answer keeps what a handler answers (http.ResponseWriter).
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }
