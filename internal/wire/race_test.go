// SPDX-License-Identifier: Apache-2.0

//go:build race

package wire_test

// The race detector allocates up to 6.4 times the length of the same frames.
func init() { cheapFactor = 8 }
