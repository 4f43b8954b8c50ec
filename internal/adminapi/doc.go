// SPDX-License-Identifier: Apache-2.0

// Package adminapi defines the admin API of a node: the types of requests, responses and events,
// the error codes, and the limits that server and client share. Package admin is the server,
// package adminclient the client.
package adminapi
