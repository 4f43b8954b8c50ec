// SPDX-License-Identifier: Apache-2.0

// Package fielderr describes invalid fields of a configuration. Programs can print the errors with
// other names for the fields, such as the names of flags.
package fielderr

import (
	"errors"
	"fmt"
	"slices"
)

// Error describes an invalid field.
type Error struct {
	Field string
	Index int   // index of the invalid element; -1 if the fault is not about one element
	Err   error // what is wrong
}

// Error names the field and what is wrong with it.
func (e *Error) Error() string {
	subject := e.Field
	if e.Index >= 0 {
		subject = fmt.Sprintf("%s[%d]", e.Field, e.Index)
	}
	return e.Text(subject, func(field string) string { return field })
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Text is like Error, but uses subject as the name of the invalid field, and name(f) as the name of
// each other field f.
func (e *Error) Text(subject string, name func(field string) string) string {
	if t, ok := e.Err.(*text); ok { //nolint:errorlint // another error has a text of its own
		return subject + " " + t.render(name)
	}
	return subject + ": " + e.Err.Error()
}

// Mentions returns the fields that the text mentions in addition to e.Field.
func (e *Error) Mentions() []string {
	var fields []string
	if t, ok := e.Err.(*text); ok { //nolint:errorlint // another error has a text of its own
		for _, arg := range t.args {
			if field, ok := arg.(Name); ok {
				fields = append(fields, string(field))
			}
		}
	}
	return fields
}

// Name is the name of another field, as an argument of Errorf; its verb is %s.
type Name string

// Errorf returns an Error for a field. The text is formatted as by fmt.Errorf and follows the name
// of the field.
func Errorf(field, format string, args ...any) *Error {
	return &Error{Field: field, Index: -1, Err: &text{format, args}}
}

// text is an error whose text mentions fields.
type text struct {
	format string
	args   []any
}

// Error implements error.
func (t *text) Error() string { return fmt.Errorf(t.format, t.args...).Error() }

// Unwrap returns the error formatted by %w, if there is one.
func (t *text) Unwrap() error { return errors.Unwrap(fmt.Errorf(t.format, t.args...)) }

// render returns the text with the given names for fields.
func (t *text) render(name func(field string) string) string {
	args := slices.Clone(t.args)
	for i, arg := range args {
		if field, ok := arg.(Name); ok {
			args[i] = name(string(field))
		}
	}
	return fmt.Errorf(t.format, args...).Error()
}

// List collects errors of type *Error.
type List []error

// Check adds an error as returned by Errorf, unless ok is true.
func (l *List) Check(ok bool, field, format string, args ...any) {
	if !ok {
		*l = append(*l, Errorf(field, format, args...))
	}
}

// CheckElement is like Check for an element of a field.
func (l *List) CheckElement(ok bool, field string, index int, format string, args ...any) {
	if !ok {
		e := Errorf(field, format, args...)
		e.Index = index
		*l = append(*l, e)
	}
}

// Add adds an error for a field, or each of the errors if err was made by errors.Join. It ignores
// nil.
func (l *List) Add(field string, err error) {
	if err == nil {
		return
	}
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, one := range all {
		*l = append(*l, &Error{Field: field, Index: -1, Err: one})
	}
}
