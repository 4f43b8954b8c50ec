// SPDX-License-Identifier: Apache-2.0

// Package memnet connects nodes within one process, for tests and experiments. It uses no
// sockets and no certificates, and its links can be cut. It has no timers, so it can be
// used in a testing/synctest bubble.
package memnet
