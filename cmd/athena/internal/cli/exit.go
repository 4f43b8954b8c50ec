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

// Exit codes of the verbs that run a command, as in timeout(1) and env(1). Few commands use them.
const (
	ExitLost     = 123 // the lock was lost
	ExitConflict = 124 // the lock was not acquired in time
	ExitNode     = 125 // the node refused, stopped or did not respond
	ExitCannot   = 126 // the command cannot be executed
	ExitNotFound = 127 // the command was not found
	ExitSignal   = 128 // plus the number of the signal that ended the command or the wait for a lock
)

// CodeError is an error that makes the program exit with Code.
type CodeError struct {
	Code int
	Err  error
}

// Error implements error.
func (e CodeError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e CodeError) Unwrap() error { return e.Err }

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
