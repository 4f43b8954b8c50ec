// SPDX-License-Identifier: Apache-2.0

// Package tlsfiles reads the credentials of a node: the secret of its cluster, or a certificate and
// its key. The certificate and key may be replaced while the node runs.
package tlsfiles
