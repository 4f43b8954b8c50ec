// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net/http"

	"github.com/athena-go/athena/internal/adminapi"
)

// serveElections responds with the most recent changes of leader, oldest first.
func (h *handler) serveElections(w http.ResponseWriter, _ *http.Request) {
	list := []adminapi.Election{}
	for _, e := range h.node.Status().Elections {
		list = append(list, adminapi.ElectionOf(e))
	}
	adminapi.WriteJSON(w, http.StatusOK, list)
}
