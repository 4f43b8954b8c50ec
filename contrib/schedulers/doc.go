// SPDX-License-Identifier: Apache-2.0

// Package schedulers contains no code. README.md shows how to run schedulers on the leader only,
// and the tests of this package compile its examples.
package schedulers
