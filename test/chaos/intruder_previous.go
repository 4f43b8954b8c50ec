// SPDX-License-Identifier: Apache-2.0

//go:build linux && previous

package main

import (
	"errors"

	"github.com/athena-go/athena/cluster"
)

// intruderMain needs the internal packages of this tree.
func intruderMain(string) error {
	return errors.New("a program with the library of another release has no intruder")
}

// guardNode does nothing: a library of another release may have no guard.
func guardNode(nodeTask, []cluster.Option) error { return nil }
