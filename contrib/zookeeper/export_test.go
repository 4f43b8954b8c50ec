// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"github.com/go-zookeeper/zk"

	"github.com/athena-go/athena/internal/leasestore"
)

// NewBackend returns the backend of a Store whose root exists.
func NewBackend(conn *zk.Conn, root string) leasestore.Backend {
	return newBackend(conn, root, zk.WorldACL(zk.PermAll))
}
