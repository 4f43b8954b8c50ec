// SPDX-License-Identifier: Apache-2.0

// Package memnet connects nodes within one process, for tests and for trying
// things out: no sockets, no certificates, and links that can be cut. It has no
// timer of its own, so all of it runs in a testing/synctest bubble.
package memnet
