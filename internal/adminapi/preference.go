// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"encoding/json"
	"fmt"

	"github.com/athena-go/athena/member"
)

// Preference is a member.Preference in JSON: "never", or a number. It may be out of range.
type Preference int

// MarshalJSON implements json.Marshaler.
func (p Preference) MarshalJSON() ([]byte, error) {
	if p == Preference(member.NeverLeads) {
		return json.Marshal(member.NeverLeads.String())
	}
	return json.Marshal(int(p))
}

// UnmarshalJSON implements json.Unmarshaler. It also accepts -1 for never.
func (p *Preference) UnmarshalJSON(text []byte) error {
	if string(text) == `"never"` {
		*p = Preference(member.NeverLeads)
		return nil
	}
	if json.Unmarshal(text, (*int)(p)) != nil {
		return fmt.Errorf("preference %.20s: want \"never\", or 0 to %d", text, member.MaxPreference)
	}
	return nil
}
