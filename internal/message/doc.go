// SPDX-License-Identifier: Apache-2.0

// Package message defines every system event of the protocol as a plain struct, one file for each
// conversation. Applications never see them. A message is a value: neither its sender nor its
// receiver changes it once it is sent.
package message
