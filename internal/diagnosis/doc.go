// SPDX-License-Identifier: Apache-2.0

// Package diagnosis reports what happens in a node to people and to monitoring: log lines, metrics,
// the history of elections, and why there is no leader.
//
// The event loop calls Observe once per turn. The transport and the messenger report what happens
// on connections. A Reporter decides nothing: a node would act the same without it.
package diagnosis
