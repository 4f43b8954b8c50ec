// SPDX-License-Identifier: Apache-2.0

// Package tlsfiles reads what a node proves its identity with: certificates with
// their key, which may be replaced while the node runs, and the secret of a cluster.
package tlsfiles
