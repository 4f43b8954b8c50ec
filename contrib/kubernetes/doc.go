// SPDX-License-Identifier: Apache-2.0

// Package kubernetes elects the leader of a controller with an Athena lock instead of a Lease
// object of Kubernetes. So elections do not depend on the API server.
//
//	lock, err := kubernetes.NewLock(node.Records(), "controller")
//	m, err := manager.New(config, manager.Options{
//		LeaderElection: true, LeaderElectionResourceLockInterface: lock, ...})
//	err = lock.Run(ctx, m.Start)
//
// The LeaderElector of client-go checks only from time to time whether it still leads. Run ends the
// context of the manager before another process can hold the lock.
package kubernetes
