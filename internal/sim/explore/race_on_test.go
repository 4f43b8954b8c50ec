// SPDX-License-Identifier: Apache-2.0

//go:build race

package explore_test

// underRace is true under the race detector, where runs take ten times as long. Runs have one goroutine.
const underRace = true
