// SPDX-License-Identifier: Apache-2.0

// Package test contains the tests of the module as a whole: the rules of its source
// (arch*_test.go), the faults of the original (stack_test.go), the stories of testdata/scenario,
// and tests that start real processes. Its subfolders prove parts of the module; programs are not
// meant to import them.
package test
