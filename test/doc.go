// SPDX-License-Identifier: Apache-2.0

// Package test contains the tests of the module as a whole: the rules of its source
// (arch*_test.go), the faults of the original (original_test.go with the core, stack_test.go with
// the whole stack), the stories of testdata/scenario, and tests that start real processes.
package test
