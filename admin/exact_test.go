// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
)

// great is a number that a float64 cannot represent exactly.
const great = 1<<62 - 1

// TestGreatNumbersTravelAsText checks that each version, revision, incarnation and token is also
// sent as a string.
func TestGreatNumbersTravelAsText(t *testing.T) {
	node := leads()
	node.status.Token = member.Token{Version: great}
	node.status.View.Version, node.status.View.Revision = great, great
	node.status.Self.Incarnation, node.status.View.Members[0].Incarnation = great, great
	node.status.LastElection.Version = great
	node.status.Elections = []cluster.Election{node.status.LastElection}
	for _, key := range []string{"latch/billing/leader", "latch/billing/latch/schema"} {
		node.records = append(node.records, member.Record{
			Key: key, Value: []byte(node.status.Self.Address.String()),
			Token: member.Token{Version: great, Revision: 7},
			Owner: node.status.View.Members[0].Identity,
		})
	}
	h := New(node, "")
	answers := map[string]string{}
	for _, path := range []string{"/v1/status", "/v1/members", "/v1/leader", "/v1/elections",
		"/v1/records", "/v1/jobs"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		answers[path] = w.Body.String()
	}
	for _, e := range []cluster.Event{
		cluster.MemberChanged{Member: node.status.View.Members[0]},
		cluster.LeaderChanged{Leader: node.status.Self, Version: great},
	} {
		kind, data := adminapi.ChangeOf(time.Time{}, e)
		answers[kind] = string(adminapi.Encode(data))
	}
	answers[adminapi.EventHeld] = string(adminapi.Encode(adminapi.Grant{
		Token: adminapi.RecordToken{Version: great, Revision: 7},
	}))
	for from, answer := range answers {
		var v any
		d := json.NewDecoder(strings.NewReader(answer))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s: %v", from, err)
		}
		if numbers := checkTexts(t, from, v); numbers == 0 {
			t.Errorf("%s: no great number in %s", from, answer)
		}
	}
}

// checkTexts checks that each version, revision, incarnation and token in v is also sent as a
// string. It returns how many numbers are equal to great.
func checkTexts(t *testing.T, from string, v any) (found int) {
	t.Helper()
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			found += checkTexts(t, from, item)
		}
	case map[string]any:
		for name, item := range v {
			found += checkTexts(t, from, item)
			n, isNumber := item.(json.Number)
			switch {
			case !isNumber || n == "":
				continue
			case n == "4611686018427387903":
				found++
			}
			if text, ok := v["text"]; ok {
				want := v["version"].(json.Number) + "." + v["revision"].(json.Number)
				if text != want.String() {
					t.Errorf("%s: token text %v, want %s", from, text, want)
				}
				continue
			}
			switch name {
			case "version", "revision", "incarnation", "token":
				if v[name+"_text"] != n.String() {
					t.Errorf("%s: %s %s has the text %v", from, name, n, v[name+"_text"])
				}
			default:
				if len(n) > 15 {
					t.Errorf("%s: %s is %s, and has no text", from, name, n)
				}
			}
		}
	}
	return found
}
