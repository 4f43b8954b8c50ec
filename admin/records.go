// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/athena-go/athena/member"
)

// Record is an entry of the table that the cluster keeps, as this node last learned that
// it is committed.
type Record struct {
	Key string `json:"key"`
	// Value is empty where it is not UTF-8; ValueBase64 has it then.
	Value       string `json:"value"`
	ValueBase64 []byte `json:"value_base64,omitempty"`
	// Owner is null for a record that stays until somebody drops it.
	Owner *Owner      `json:"owner"`
	Token RecordToken `json:"token"`
	// Revoked says that the owner may not act on it any more, and that it goes when
	// the owner knows.
	Revoked bool `json:"revoked"`
	// Known is as in Job.
	Known bool `json:"known"`
}

// Owner is the run of a member that owns a record.
type Owner struct {
	Name        string         `json:"name"` // empty where it is no member any more
	Address     member.Address `json:"address"`
	Incarnation uint64         `json:"incarnation"`
}

// RecordToken is the fencing token of a record: the revision that set it. Tokens of a
// key grow, first by version, then by revision.
type RecordToken struct {
	Version  uint64 `json:"version"`
	Revision uint64 `json:"revision"`
}

// records answers with all records, or with those under ?prefix.
func (h *handler) records(w http.ResponseWriter, r *http.Request) {
	prefix, err := prefixOf(r)
	if err != nil {
		WriteError(w, http.StatusBadRequest, CodeBadQuery, err.Error())
		return
	}
	s := h.node.Status()
	list := []Record{}
	for _, e := range h.node.Records(prefix) {
		out := recordOf(s.View.Members, e)
		out.Known = s.Token != 0
		list = append(list, out)
	}
	WriteJSON(w, http.StatusOK, list)
}

func prefixOf(r *http.Request) (string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", fmt.Errorf("query %q of %s: %w", r.URL.RawQuery, r.URL.Path, err)
	}
	for word := range query {
		if word != "prefix" {
			return "", fmt.Errorf("query %q: %s takes ?prefix", word, r.URL.Path)
		}
	}
	return query.Get("prefix"), nil
}

func recordOf(members member.Roster, e member.Record) Record {
	out := Record{
		Key: e.Key, Token: RecordToken(e.Token), Revoked: e.Revoked,
	}
	if utf8.Valid(e.Value) {
		out.Value = string(e.Value)
	} else {
		out.ValueBase64 = e.Value
	}
	if e.IsOwned() {
		out.Owner = &Owner{Address: e.Owner.Address, Incarnation: e.Owner.Incarnation}
		if m, ok := members.Find(e.Owner.Address); ok && m.Identity == e.Owner {
			out.Owner.Name = m.Name
		}
	}
	return out
}
