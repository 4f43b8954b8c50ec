// SPDX-License-Identifier: Apache-2.0

// Package message holds every system event of the protocol as a plain struct,
// one file a conversation. Messages never reach the application. They are
// values: neither sender nor receiver changes one after it was sent.
package message
