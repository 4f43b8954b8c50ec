// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"errors"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/athena-go/athena/record"
)

// TestErrorsDuringWrite checks that only an ERROR of the server proves that nothing was written.
func TestErrorsDuringWrite(t *testing.T) {
	answer := func(severity, code string) error {
		return &pgconn.PgError{SeverityUnlocalized: severity, Code: code}
	}
	for _, c := range []struct {
		err, want error // nil means a permanent refusal
	}{
		{answer("ERROR", "40001"), record.ErrNoQuorum},       // serialization failure
		{answer("ERROR", "25006"), record.ErrNoQuorum},       // read-only transaction
		{answer("ERROR", "42501"), nil},                      // no permission
		{answer("FATAL", "57P01"), record.ErrUnknownOutcome}, // terminated by an administrator
		{answer("FATAL", "28000"), record.ErrUnknownOutcome}, // a refusal, but maybe after the commit
		{answer("ERROR", "08P01"), record.ErrUnknownOutcome}, // a pooler has lost the server
		{answer("", "42501"), record.ErrUnknownOutcome},      // a pooler that omits the severity
		{io.ErrUnexpectedEOF, record.ErrUnknownOutcome},      // the connection was lost
	} {
		err := (*backend)(nil).convertErr(c.err, record.ErrUnknownOutcome)
		var got error
		for _, e := range []error{record.ErrNoQuorum, record.ErrUnknownOutcome} {
			if errors.Is(err, e) {
				got = e
			}
		}
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%v became %v, want %v", c.err, err, c.want)
		}
	}
}
