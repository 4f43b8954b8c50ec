// SPDX-License-Identifier: Apache-2.0

package message

// Reason names why an event was refused or dropped. Every refusal of the state
// machine has one; those in votes and join responses travel to the peer. The
// numbers are part of the wire format: new reasons are appended.
type Reason uint8
