// SPDX-License-Identifier: Apache-2.0

// Package transport says how nodes reach each other: the Transport interface,
// the greet and the rule for crossing connections as pure functions, and what
// every implementation shares. memnet connects nodes within one process,
// quicnet over QUIC; both pass the suite of transporttest.
package transport
