// SPDX-License-Identifier: Apache-2.0

// Package schedulers contains no code: README.md shows how schedulers run on the leader only, and
// the tests of this package compile what it shows.
package schedulers
