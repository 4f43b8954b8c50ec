// SPDX-License-Identifier: Apache-2.0

//go:build linux && !previous

package main

import "github.com/athena-go/athena/cluster"

// guardNode gives the process of a node a guard if its task wants one. In the process of the guard
// it does not return.
func guardNode(task nodeTask, opts []cluster.Option) error {
	if !task.Guard {
		return nil
	}
	return cluster.Guard(task.Config, opts...)
}
