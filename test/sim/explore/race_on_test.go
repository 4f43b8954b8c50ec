// SPDX-License-Identifier: Apache-2.0

//go:build race

package explore_test

// underRace is true under the race detector, where a run takes ten times as long.
const underRace = true
