// SPDX-License-Identifier: Apache-2.0

// Package adminapi holds what the admin API of a node says over HTTP: the types of its
// requests, answers and events, its error codes, and the limits that both sides keep.
// Package admin serves the API, package adminclient asks it.
package adminapi
