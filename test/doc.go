// SPDX-License-Identifier: Apache-2.0

// Package test holds the tests of the module as a whole: the rules of its
// source (arch*_test.go) and the tests that start real processes.
package test
