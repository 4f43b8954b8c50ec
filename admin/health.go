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

// healthPaths are open to callers without the token and with any Host, since probes and load
// balancers have no token and may send a different Host.
var healthPaths = []string{"/livez", "/readyz"}

func isHealth(r *http.Request) bool { return slices.Contains(healthPaths, r.URL.Path) }

// hideDetails replaces the text of an error, which may name members and their addresses, with a
// fixed text. It is used for health checks without the token.
func hideDetails(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := responseRecorder{header: http.Header{}, status: http.StatusOK}
		next.ServeHTTP(&a, r)
		if a.status == http.StatusOK {
			writeOK(w)
			return
		}
		var e adminapi.ErrorBody
		_ = json.Unmarshal(a.body.Bytes(), &e) // e is empty if the body is not an ErrorBody
		if allow := a.header.Get("Allow"); allow != "" {
			w.Header().Set("Allow", allow)
		}
		adminapi.WriteError(w, a.status, e.Code, strings.ToLower(http.StatusText(a.status)))
	})
}

// responseRecorder is an http.ResponseWriter that keeps the response in memory.
type responseRecorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *responseRecorder) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *responseRecorder) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *responseRecorder) Write(b []byte) (int, error) { return a.body.Write(b) }
