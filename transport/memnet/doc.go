// SPDX-License-Identifier: Apache-2.0

// Package memnet connects nodes within one process, for tests and experiments: it has no
// sockets and no certificates, and its links can be cut. It uses no timers, so it runs in a
// testing/synctest bubble.
package memnet
