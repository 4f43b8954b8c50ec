// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log"
	"os"
	"strconv"
	"strings"

	"k8s.io/client-go/tools/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/contrib/kubernetes"
)

// newLock starts a node of a cluster of three, and returns a lock on it.
func newLock() *kubernetes.Lock {
	ctx := context.Background()
	node, err := cluster.Start(ctx, cluster.Config{
		Addr: os.Getenv("ADDR"), Seeds: strings.Fields(os.Getenv("SEEDS")), Size: 3,
		DataDir: os.Getenv("DATA_DIR"),
	})
	if err != nil {
		log.Fatal(err)
	}
	lock, err := kubernetes.NewLock(node.Records(), "controller")
	if err != nil {
		log.Fatal(err)
	}
	return lock
}

// runOrDie runs a LeaderElector. Its context ends with the lock.
func runOrDie(
	ctx context.Context, lock *kubernetes.Lock, config leaderelection.LeaderElectionConfig,
) {
	err := lock.Run(ctx, func(ctx context.Context) error {
		leaderelection.RunOrDie(ctx, config)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// makeOptions returns the options of a manager, one of three on a machine.
func makeOptions(lock *kubernetes.Lock) manager.Options {
	port, err := strconv.Atoi(os.Getenv("WEBHOOK_PORT"))
	if err != nil {
		log.Fatal(err)
	}
	return manager.Options{
		LeaderElection: true, LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: "127.0.0.1", Port: port, CertDir: os.Getenv("CERT_DIR"),
		}),
	}
}
