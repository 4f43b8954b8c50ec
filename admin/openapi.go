// SPDX-License-Identifier: Apache-2.0

package admin

import (
	_ "embed" // of the document
	"net/http"
)

// openAPI is the OpenAPI document of the admin API. A test compares it with the handlers.
//
//go:embed openapi.json
var openAPI []byte

func serveDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(openAPI) // an error means that the caller is gone
}
