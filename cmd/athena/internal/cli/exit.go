// SPDX-License-Identifier: Apache-2.0

// Package cli holds what all verbs of athena share: exit codes, usage errors, arguments,
// output and the text of the program's version.
package cli

import "errors"

// Exit codes.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// ErrStopped is the cause of a context that ended because of a signal.
var ErrStopped = errors.New("told to stop")

// UsageError is an error in the command line, the environment or the configuration file.
// The program ends with exitUsage then.
type UsageError struct{ err error }

// Usage returns err as a usageError.
func Usage(err error) error { return UsageError{err} }

// Error implements error.
func (e UsageError) Error() string { return e.err.Error() }

// Unwrap returns the error itself, for errors.Is and errors.As.
func (e UsageError) Unwrap() error { return e.err }
