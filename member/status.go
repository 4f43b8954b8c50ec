// SPDX-License-Identifier: Apache-2.0

package member

import "fmt"

// Status is the status of a member. The leader changes it according to the table in
// protocol.md section 3.
type Status uint8

const (
	// None is the status of an address without an entry.
	None Status = iota
	// Joining members are admitted, but do not vote yet.
	Joining
	// Active members answer the leader and take part in all decisions.
	Active
	// Unreachable members have been silent for HeartbeatTimeout.
	Unreachable
	// Leaving members have been silent for TTLTimeout, or are leaving on purpose.
	Leaving
	// Removed members have left, and M voters hold a state that records this. Only a View shows this
	// status.
	Removed
)

var statusNames = [...]string{"none", "joining", "active", "unreachable", "leaving", "removed"}

// String returns the name in lower case.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// MarshalText returns the text of String.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the text of String.
func (s *Status) UnmarshalText(b []byte) error {
	for i, name := range statusNames {
		if name == string(b) {
			*s = Status(i)
			return nil
		}
	}
	return fmt.Errorf("member: unknown status %q", b)
}

// moves is the table of protocol.md section 3. A member that a View shows as Removed may still
// occupy a seat, so such a member may rejoin. An address with a different store id starts again at
// Joining.
var moves = map[[2]Status]bool{
	{None, Joining}:        true,
	{Joining, Active}:      true,
	{Joining, None}:        true, // it left or became silent before it could vote
	{Active, Unreachable}:  true,
	{Unreachable, Active}:  true,
	{Unreachable, Leaving}: true,
	{Active, Leaving}:      true,
	{Leaving, Active}:      true,
	{Leaving, Removed}:     true,
	{Removed, Joining}:     true,
	{Joining, Removed}:     true, // it kept its seat, then left or fell silent again
	{Removed, None}:        true, // its seat was given to another member
	{Leaving, None}:        true,
}

// CanMove reports whether a member with an unchanged store may change from one status to
// another within a version (protocol.md section 3).
func CanMove(from, to Status) bool { return from == to || moves[[2]Status{from, to}] }
