// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
)

// TestRecords checks that text values are sent as strings, and other values as base64.
func TestRecords(t *testing.T) {
	node := leads()
	owner := node.status.View.Members[0].Identity
	gone := owner
	gone.Incarnation++
	node.records = []member.Record{
		{Key: "a", Value: []byte("text"), Owner: owner, Token: member.Token{Version: 4, Revision: 7}},
		{Key: "b", Value: []byte{0xff}, Owner: gone, Revoked: true},
		{Key: "c"},
	}
	rec := httptest.NewRecorder()
	New(node, "b").ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/v1/records?prefix=x", nil))
	var got []adminapi.Record
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != http.StatusOK {
		t.Fatalf("got %d %s, %v", rec.Code, rec.Body, err)
	}
	want := []adminapi.Record{
		{
			Key: "a", Value: "text", Owner: &adminapi.Owner{Name: "n0", Address: owner.Address},
			Token: adminapi.RecordToken{Version: 4, Revision: 7}, Known: true,
		},
		{
			Key: "b", ValueBase64: []byte{0xff},
			Owner: &adminapi.Owner{Address: owner.Address, Incarnation: 1}, Revoked: true, Known: true,
		},
		{Key: "c", Known: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	rec = httptest.NewRecorder()
	New(node, "b").ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/v1/records?prefixx=a", nil))
	if rec.Code != http.StatusBadRequest ||
		!strings.Contains(rec.Body.String(), adminapi.CodeBadQuery) {
		t.Errorf("got %d %s for an unknown query", rec.Code, rec.Body)
	}
}
