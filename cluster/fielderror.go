// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"

	"github.com/athena-go/athena/internal/fielderr"
)

// FieldError is a fault of one field of Config. The error of Validate joins one for each fault
// (errors.Join). A program that has other names for the fields, such as flags, shows the fault
// by Text.
type FieldError struct {
	Field string // name of the field
	Index int    // of the element with the fault; -1 if the fault is not about one element
	Err   error  // what is wrong with the value
}

// Error names the field and its fault.
func (e *FieldError) Error() string { return e.fault().Error() }

// Unwrap returns Err.
func (e *FieldError) Unwrap() error { return e.Err }

// Text is Error with other names: subject for the field itself, and name(f) for each other
// field f of Config that the text mentions.
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

// joined returns a FieldError for each fault, joined; nil if there are none.
func (f *faults) joined() error { return asFieldErrors(errors.Join(f.List...)) }

// asFieldErrors converts the faults that other packages found to FieldErrors, all in one
// errors.Join.
func asFieldErrors(err error) error {
	if e, ok := err.(*fielderr.Error); ok {
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
