// SPDX-License-Identifier: Apache-2.0

// Package observe describes what happens in a node, to people and to monitoring: log
// lines, metrics, the history of elections, and the reason why there is no leader.
//
// The event loop calls Observe once a turn, with everything that the turn brought about.
// The transport and the messenger report what happens on connections. Nothing here
// decides anything: a node without an Observer would act the same.
package observe
