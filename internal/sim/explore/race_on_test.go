// SPDX-License-Identifier: Apache-2.0

//go:build race

package explore_test

// underRace says that everything takes ten times as long. There is one goroutine.
const underRace = true
