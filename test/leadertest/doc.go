// SPDX-License-Identifier: Apache-2.0

// Package leadertest is the conformance suite of package leader. It tests what every
// strategy must satisfy, in virtual time.
package leadertest
