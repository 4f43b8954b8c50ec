// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
)

// TestElectionsAreAList checks that elections are listed oldest first, and that the list may be
// empty.
func TestElectionsAreAList(t *testing.T) {
	if got := ask(admin.New(joining(), ""), "GET", "/v1/elections").Body.String(); got != "[]\n" {
		t.Errorf("before the first: got %q, want an empty list", got)
	}
	f := leading(t)
	f.Elections = []cluster.Election{
		{Cause: cluster.CauseStart, Version: 3, Leader: f.View.Members[2].Address},
		{Cause: cluster.CauseConflict, Rule: "version", Version: 4, Took: time.Second},
	}
	var got []adminapi.Election
	answer := ask(admin.New(f, ""), "GET", "/v1/elections").Body.Bytes()
	if err := json.Unmarshal(answer, &got); err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range got {
		told = append(told, string(e.Cause)+"/"+e.Rule)
	}
	want := []string{"start/", "conflict/version"}
	if diff := cmp.Diff(want, told); diff != "" || got[1].TookMS != 1000 {
		t.Errorf("got %+v, want the two in order (-want +got)\n%s", got, diff)
	}
}
