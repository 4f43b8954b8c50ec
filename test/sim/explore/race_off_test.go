// SPDX-License-Identifier: Apache-2.0

//go:build !race

package explore_test

const underRace = false
