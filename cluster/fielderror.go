// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"

	"github.com/athena-go/athena/internal/fielderr"
)

// FieldError is a fault of one field of Config. Validate joins one for each fault
// (errors.Join). Programs that call the fields by other names, such as flags, show it by
// Text.
type FieldError struct {
	Field string // the name of the field
	Index int    // of the element that the fault is about; -1 unless it is about one
	Err   error  // what is wrong with the value
}

// Error names the field and says what is wrong.
func (e *FieldError) Error() string { return e.fault().Error() }

// Unwrap returns Err.
func (e *FieldError) Unwrap() error { return e.Err }

// Text is Error with other names: subject for the field itself, and name for each other
// field of Config that the text mentions.
func (e *FieldError) Text(subject string, name func(field string) string) string {
	return e.fault().Text(subject, name)
}

// Mentions returns the other fields of Config that the text mentions. The fault may be
// theirs.
func (e *FieldError) Mentions() []string { return e.fault().Mentions() }

func (e *FieldError) fault() *fielderr.Error { return (*fielderr.Error)(e) }

// field is the name of another field in the text of a FieldError.
type field = fielderr.Name

// fieldErrorf returns a fault of a field; see fielderr.Errorf.
func fieldErrorf(name, format string, args ...any) *FieldError {
	return (*FieldError)(fielderr.Errorf(name, format, args...))
}

// faults collects the faults of a configuration.
type faults struct{ fielderr.List }

// err joins a FieldError for each fault; nil if there are none.
func (f *faults) err() error { return asFieldErrors(errors.Join(f.List...)) }

// asFieldErrors returns err with the faults that other packages found as FieldErrors, all in
// one errors.Join.
func asFieldErrors(err error) error {
	if e, ok := err.(*fielderr.Error); ok {
		return (*FieldError)(e)
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return errors.Join(flatten(joined.Unwrap())...)
	}
	return err
}

func flatten(all []error) (flat []error) {
	for _, one := range all {
		one = asFieldErrors(one)
		if joined, ok := one.(interface{ Unwrap() []error }); ok {
			flat = append(flat, joined.Unwrap()...)
		} else {
			flat = append(flat, one)
		}
	}
	return flat
}
