// SPDX-License-Identifier: Apache-2.0

package kubernetes_test

import (
	"context"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/contrib/kubernetes"
	"github.com/athena-go/athena/leader"
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

// README.md and contrib/from-client-go/README.md show these functions. They need an API server, so
// no test runs them.
var _, _ = runController, runUnderBoth

// runUnderBoth runs work while this process leads by both electors, until ctx is done.
func runUnderBoth(
	ctx context.Context, candidate *leader.Candidate, config leaderelection.LeaderElectionConfig,
	work func(context.Context, leader.Term) error,
) {
	config.Callbacks.OnStartedLeading = func(ctx context.Context) {
		_ = candidate.WhileLeader(ctx, work) // the error is the end of the context
	}
	leaderelection.RunOrDie(ctx, config)
}
