// SPDX-License-Identifier: Apache-2.0

package kubernetes_test

import (
	"context"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/contrib/kubernetes"
)

// runController runs the controllers that add adds to a manager, on the leader only.
func runController(
	ctx context.Context, node *cluster.Node, config *rest.Config, add func(manager.Manager) error,
) error {
	lock, err := kubernetes.NewLock(node.Records(), "controller")
	if err != nil {
		return err
	}
	m, err := manager.New(config, manager.Options{
		LeaderElection: true, LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel: true, // hands the lock over when ctx is done
	})
	if err != nil {
		return err
	}
	if err := add(m); err != nil {
		return err
	}
	return lock.Run(ctx, m.Start) // not m.Start(ctx): see below
}

// README.md shows this function. It needs an API server, so no test runs it.
var _ = runController
