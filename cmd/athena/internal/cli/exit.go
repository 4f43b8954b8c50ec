// SPDX-License-Identifier: Apache-2.0

// Package cli holds the code shared by all verbs of athena: exit codes, usage errors, arguments,
// output and the version of the program.
package cli

import "errors"

// Exit codes.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// ErrStopped is the cause of a context that was canceled by a signal.
var ErrStopped = errors.New("interrupted")

// UsageError is an error in the command line, the environment or the configuration file. It makes
// the program exit with ExitUsage.
type UsageError struct{ err error }

// Usage returns err as a UsageError.
func Usage(err error) error { return UsageError{err} }

// Error implements error.
func (e UsageError) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e UsageError) Unwrap() error { return e.err }
