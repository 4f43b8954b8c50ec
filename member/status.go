// SPDX-License-Identifier: Apache-2.0

package member

import "fmt"

// Status of a member, moved by its leader along the table of protocol.md
// section 3.
type Status uint8

const (
	// None is a member that the roster does not have.
	None Status = iota
	// Joining members were admitted and have no vote yet.
	Joining
	// Active members are heard and take part in everything.
	Active
	// Unreachable members were silent for HeartbeatTimeout.
	Unreachable
	// Leaving members were silent for TTLTimeout, or left on purpose.
	Leaving
	// Removed members left, and M voters hold that. Only views show it.
	Removed
)

var statusNames = [...]string{"none", "joining", "active", "unreachable", "leaving", "removed"}

// String is the lower-case name of the status.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// MarshalText writes the name of the status.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name of a status.
func (s *Status) UnmarshalText(b []byte) error {
	for i, name := range statusNames {
		if name == string(b) {
			*s = Status(i)
			return nil
		}
	}
	return fmt.Errorf("member: unknown status %q", b)
}

// moves lists the table of protocol.md section 3. Removed is shown of a seat that
// is only kept, so its member may come back. A known address under another store id
// starts again from Joining.
var moves = map[[2]Status]bool{
	{None, Joining}:        true,
	{Joining, Active}:      true,
	{Joining, None}:        true, // it left or fell silent before it had a vote
	{Active, Unreachable}:  true,
	{Unreachable, Active}:  true,
	{Unreachable, Leaving}: true,
	{Active, Leaving}:      true,
	{Leaving, Active}:      true,
	{Leaving, Removed}:     true,
	{Removed, Joining}:     true,
	{Joining, Removed}:     true, // its seat was kept, and it left or fell silent again
	{Removed, None}:        true, // its seat was given away
	{Leaving, None}:        true,
}

// CanMove reports whether the table of protocol.md section 3 allows the move
// of one store's member from one status to another within a version.
func CanMove(from, to Status) bool { return from == to || moves[[2]Status{from, to}] }
