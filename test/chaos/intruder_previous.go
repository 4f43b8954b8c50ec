// SPDX-License-Identifier: Apache-2.0

//go:build linux && previous

package main

import "errors"

// intruderMain needs the internal packages of this tree.
func intruderMain(string) error {
	return errors.New("a program with the library of another release has no intruder")
}
