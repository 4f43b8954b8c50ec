// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// WriteJSON writes a response with v encoded as JSON.
func WriteJSON(w http.ResponseWriter, status int, value any) {
	body := Encode(value)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // an error means that the caller is gone
}

// WriteError writes an error response. Programs should rely on code; text may change.
func WriteError(w http.ResponseWriter, status int, code, text string) {
	WriteJSON(w, status, ErrorBody{text, code})
}

// ErrorBody is the response to a request that failed.
type ErrorBody struct {
	Error string `json:"error"`
	Code  string `json:"code"`
}

// Encode returns a value of this package as JSON.
func Encode(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("admin: cannot encode %T: %v", value, err))
	}
	return data
}
