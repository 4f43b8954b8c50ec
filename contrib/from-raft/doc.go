// SPDX-License-Identifier: Apache-2.0

// Package fromraft contains no code. README.md shows how to replace hashicorp/raft that is used for
// leadership alone, and the tests of this package run its example.
package fromraft
