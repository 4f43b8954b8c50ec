// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/internal/adminapi"
)

// TestPageShowsTheResponses checks that the examples in the docs have exactly the fields of the
// types, and that the docs list every code.
func TestPageShowsTheResponses(t *testing.T) {
	page, err := os.ReadFile("../docs/admin.md")
	more, moreErr := os.ReadFile("../docs/admin-api.md")
	if err := errors.Join(err, moreErr); err != nil {
		t.Fatal(err)
	}
	page = append(page, more...)
	for title, answer := range map[string]any{
		"### /v1/status": &adminapi.Status{}, "### /v1/leader": &adminapi.Leader{},
		"### /v1/jobs": &[]adminapi.Job{}, "### /v1/send": &adminapi.Sent{},
		"### /v1/transfer, /v1/drain, /v1/prefer": &adminapi.HandedOver{},
	} {
		_, section, _ := bytes.Cut(page, []byte(title+"\n"))
		example := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(section)
		if example == nil {
			t.Errorf("%s has no example", title)
			continue
		}
		if err := json.Unmarshal(example[1], answer); err != nil {
			t.Errorf("%s: %v", title, err)
			continue
		}
		again, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(value(t, string(again)), value(t, string(example[1]))); diff != "" {
			t.Errorf("%s: -type +page:\n%s", title, diff)
		}
	}
	for _, code := range []string{adminapi.CodeNoQuorum, adminapi.CodeNotLeader,
		adminapi.CodeNotActive,
		adminapi.CodeNotFound, adminapi.CodeMethodNotAllowed, adminapi.CodeForbidden,
		adminapi.CodeNoAnswer} {
		if !strings.Contains(string(page), `"code": "`+code+`"`) {
			t.Errorf("code %s has no example", code)
		}
	}
	for _, code := range []string{adminapi.CodeUnauthorized, adminapi.CodeReadOnly,
		adminapi.CodeCrossSite,
		adminapi.CodeBadRequest, adminapi.CodeTooLarge, adminapi.CodeNotActive, adminapi.CodeNotLeader,
		adminapi.CodeNotElected, adminapi.CodeNoQuorum, adminapi.CodeNotDelivered,
		adminapi.CodeUnknownType,
		adminapi.CodeHandlerFailed, adminapi.CodeUnknownOutcome, adminapi.CodeBusy, adminapi.CodeClosed,
		adminapi.CodeFailed, adminapi.CodeLeaseEnded, adminapi.CodeDisabled, adminapi.CodeNotHeld} {
		if !strings.Contains(string(more), "\n| `"+code+"` | ") {
			t.Errorf("code %s has no line in docs/admin-api.md", code)
		}
	}
}
