// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"encoding/json"
	"strconv"

	"github.com/athena-go/athena/member"
)

// Many programs decode JSON numbers as float64, which is exact only up to 2^53. Programs compare
// versions, revisions, incarnations and tokens, which may be larger. So for each such number NAME,
// the string NAME_text contains all its digits. Traffic counters have no such string, since
// rounding does not matter for them.

// fencingToken returns the text of the fencing token of the leader of a version. Programs can
// compare it with the tokens of records, jobs and locks.
func fencingToken(version uint64) string { return member.Token{Version: version}.String() }

func digits(n uint64) string { return strconv.FormatUint(n, 10) }

// MarshalJSON adds string fields for the token.
func (s Status) MarshalJSON() ([]byte, error) {
	type plain Status
	return json.Marshal(struct {
		plain
		TokenText    string `json:"token_text"`
		FencingToken string `json:"fencing_token"`
	}{plain(s), digits(s.Token), fencingToken(s.Token)})
}

// MarshalJSON adds string fields for the version and the revision.
func (v View) MarshalJSON() ([]byte, error) {
	type plain View
	return json.Marshal(struct {
		plain
		VersionText  string `json:"version_text"`
		RevisionText string `json:"revision_text"`
	}{plain(v), digits(v.Version), digits(v.Revision)})
}

// MarshalJSON adds string fields for the version and the token.
func (l Leader) MarshalJSON() ([]byte, error) {
	type plain Leader
	return json.Marshal(struct {
		plain
		VersionText  string `json:"version_text"`
		TokenText    string `json:"token_text"`
		FencingToken string `json:"fencing_token"`
	}{plain(l), digits(l.Version), digits(l.Token), fencingToken(l.Token)})
}

// MarshalJSON adds a string field for the version.
func (e Election) MarshalJSON() ([]byte, error) {
	type plain Election
	return json.Marshal(struct {
		plain
		VersionText string `json:"version_text"`
	}{plain(e), digits(e.Version)})
}

// MarshalJSON adds a string field for the version.
func (c LeaderChange) MarshalJSON() ([]byte, error) {
	type plain LeaderChange
	return json.Marshal(struct {
		plain
		VersionText string `json:"version_text"`
	}{plain(c), digits(c.Version)})
}

// MarshalJSON adds a string field for the incarnation.
func (s Self) MarshalJSON() ([]byte, error) {
	type plain Self
	return json.Marshal(struct {
		plain
		IncarnationText string `json:"incarnation_text"`
	}{plain(s), digits(s.Incarnation)})
}

// MarshalJSON adds a string field for the incarnation.
func (m Member) MarshalJSON() ([]byte, error) {
	type plain Member
	return json.Marshal(struct {
		plain
		IncarnationText string `json:"incarnation_text"`
	}{plain(m), digits(m.Incarnation)})
}

// MarshalJSON adds a string field for the incarnation.
func (o Owner) MarshalJSON() ([]byte, error) {
	type plain Owner
	return json.Marshal(struct {
		plain
		IncarnationText string `json:"incarnation_text"`
	}{plain(o), digits(o.Incarnation)})
}

// MarshalJSON adds string fields for the token.
func (t RecordToken) MarshalJSON() ([]byte, error) {
	type plain RecordToken
	return json.Marshal(struct {
		plain
		Text string `json:"text"`
	}{plain(t), t.String()})
}

// String returns the token in the form of ATHENA_TOKEN, as member.Token does.
func (t RecordToken) String() string { return member.Token(t).String() }
