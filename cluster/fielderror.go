// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"

	"github.com/athena-go/athena/internal/fielderr"
)

// FieldError describes an invalid field of Config. Validate joins one FieldError for each fault
// (errors.Join). Programs that know the fields by other names, such as flags, print the fault with
// Text.
type FieldError struct {
	Field string // name of the field
	Index int    // index of the invalid element; -1 if the whole field is at fault
	Err   error  // what is wrong with the value
}

// Error names the field and what is wrong with it.
func (e *FieldError) Error() string { return e.fault().Error() }

// Unwrap returns Err.
func (e *FieldError) Unwrap() error { return e.Err }

// Text is like Error, but uses subject as the name of the field, and name(f) for each other field f
// of Config in the text.
func (e *FieldError) Text(subject string, name func(field string) string) string {
	return e.fault().Text(subject, name)
}

// Mentions returns the other fields of Config that the text mentions. The fault may be in one of
// these fields.
func (e *FieldError) Mentions() []string { return e.fault().Mentions() }

func (e *FieldError) fault() *fielderr.Error { return (*fielderr.Error)(e) }

// field is the name of another field mentioned by a FieldError.
type field = fielderr.Name

// fieldErrorf returns the description of an invalid field; see fielderr.Errorf.
func fieldErrorf(name, format string, args ...any) *FieldError {
	return (*FieldError)(fielderr.Errorf(name, format, args...))
}

// faults collects the invalid fields of a configuration.
type faults struct{ fielderr.List }

// joined returns the faults as FieldErrors in one error, or nil if there are none.
func (f *faults) joined() error { return asFieldErrors(errors.Join(f.List...)) }

// asFieldErrors converts the faults that other packages found to FieldErrors and joins them all.
func asFieldErrors(err error) error {
	if e, ok := err.(*fielderr.Error); ok { //nolint:errorlint // it walks the tree of errors itself
		return (*FieldError)(e)
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return errors.Join(flattenErrors(joined.Unwrap())...)
	}
	return err
}

func flattenErrors(all []error) (flat []error) {
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
