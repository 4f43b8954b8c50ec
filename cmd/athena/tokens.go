// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"

	"github.com/athena-go/athena/admin"
)

// revisionsOfVersion is what a version counts in the one number that scripts get as a
// token: in decimal both parts can be read, and the number fits into a BIGINT. A thousand
// commits a second make that many in thirty years of one leader.
const revisionsOfVersion = 1_000_000_000_000

// tokenNumber is a token as one number, which is greater for a greater token; an error
// where there is none.
func tokenNumber(t admin.RecordToken) (int64, error) {
	if t.Revision >= revisionsOfVersion || t.Version > math.MaxInt64/revisionsOfVersion-1 {
		return 0, fmt.Errorf("the token %d.%d is too great for one number", t.Version, t.Revision)
	}
	return int64(t.Version)*revisionsOfVersion + int64(t.Revision), nil
}

// tokenText is a token for people to compare with what scripts have.
func tokenText(t admin.RecordToken) string {
	n, err := tokenNumber(t)
	if err != nil {
		return fmt.Sprintf("%d.%d", t.Version, t.Revision)
	}
	return fmt.Sprint(n)
}
