// SPDX-License-Identifier: Apache-2.0

// Package statemachine is the whole protocol of one node as a value: inputs
// in, effects out, no goroutine, no clock, no I/O. One file holds one flow.
//
// The owner of a Machine calls Step with each message, Advance when Deadline
// has passed, and the few verbs of an operator (Leave, Transfer, Drain). Every
// call returns an Output, whose parts are carried out in the order of its
// fields. All calls come from one goroutine, with a now that never falls.
//
// The package may change until version 1 of the module; programs use package
// cluster.
package statemachine
