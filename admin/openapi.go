// SPDX-License-Identifier: Apache-2.0

package admin

import (
	_ "embed" // of the document
	"net/http"
)

// openAPI describes every path, answer and error of a node, for people and for what
// makes clients. It is written by hand, and held against the handlers by a test.
//
//go:embed openapi.json
var openAPI []byte

func serveDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(openAPI) // a caller that went away is no fault
}
