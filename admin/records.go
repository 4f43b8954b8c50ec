// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
)

// serveRecords responds with all records, or with those whose key starts with the prefix parameter.
func (h *handler) serveRecords(w http.ResponseWriter, r *http.Request) {
	prefix, err := prefixOf(r)
	if err != nil {
		adminapi.WriteError(w, http.StatusBadRequest, adminapi.CodeBadQuery, err.Error())
		return
	}
	records, err := h.node.Records().List(r.Context(), prefix)
	if err != nil {
		writeRefusal(w, err)
		return
	}
	s := h.node.Status()
	list := []adminapi.Record{}
	for _, e := range records {
		out := recordOf(s.View.Members, e)
		out.Known = !s.Token.IsZero()
		list = append(list, out)
	}
	adminapi.WriteJSON(w, http.StatusOK, list)
}

func prefixOf(r *http.Request) (string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", fmt.Errorf("query %q of %s: %w", r.URL.RawQuery, r.URL.Path, err)
	}
	for word := range query {
		if word != "prefix" {
			return "", fmt.Errorf("unknown query %q: %s accepts ?prefix", word, r.URL.Path)
		}
	}
	return query.Get("prefix"), nil
}

func recordOf(members member.Roster, e member.Record) adminapi.Record {
	out := adminapi.Record{
		Key: e.Key, Token: adminapi.RecordToken(e.Token), Revoked: e.Revoked,
	}
	if utf8.Valid(e.Value) {
		out.Value = string(e.Value)
	} else {
		out.ValueBase64 = e.Value
	}
	if e.IsOwned() {
		out.Owner = &adminapi.Owner{Address: e.Owner.Address, Incarnation: e.Owner.Incarnation}
		if m, ok := members.Find(e.Owner.Address); ok && m.Identity == e.Owner {
			out.Owner.Name = m.Name
		}
	}
	return out
}
