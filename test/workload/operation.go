// SPDX-License-Identifier: Apache-2.0

// Package workload runs clients of records and locks, and records their operations for a checker
// of linearizability (test/linear). They run in virtual time and in the processes of test/chaos.
package workload

import (
	"fmt"
	"math"
	"slices"

	"github.com/athena-go/athena/member"
)

// Kind is the kind of an operation.
type Kind string

// The kinds of operations.
const (
	Create  Kind = "create"  // set the record if there is none
	Set     Kind = "set"     // without a condition
	Update  Kind = "update"  // set the record if it has the token Given
	Drop    Kind = "drop"    // if it has the token Given
	Check   Kind = "check"   // whether it has the token Given
	List    Kind = "list"    // return the record, which may have changed since
	Acquire Kind = "acquire" // the lock
	Release Kind = "release" // the lock, or lose it
)

// Result is the result of an operation.
type Result string

// The results of operations.
const (
	Done     Result = "done"
	Conflict Result = "conflict" // the condition was false
	Unknown  Result = "unknown"  // it may have been done, or may be done at any later time
	Nothing  Result = "nothing"  // nothing was done and nothing compared
)

// Forever is the end of an operation whose end is not known.
const Forever = math.MaxInt64

// Operation is an operation of a client on its key. Times are nanoseconds.
type Operation struct {
	Client, Seq int64 // Seq numbers the operations of a client
	Key         string
	Kind        Kind
	Call, Ended int64 // Ended is 0 while the operation is in progress
	Result      Result
	Given       member.Token // condition
	Token       member.Token // of the record that was set or listed, if known
	Value       string       // that was set or listed
}

// Complete returns the operations of the lines that clients recorded, by key: the last line of each
// operation. If its client died during an operation, its result is unknown.
func Complete(lines []Operation) map[string][]Operation {
	type id struct{ client, seq int64 }
	last := map[id]int{}
	for i, o := range lines {
		last[id{o.Client, o.Seq}] = i
	}
	keys := map[string][]Operation{}
	for i, o := range lines {
		if last[id{o.Client, o.Seq}] != i {
			continue
		}
		if o.Ended == 0 {
			o.Ended, o.Result = Forever, Unknown
			switch o.Kind {
			case Release:
				o.Result = Done
			case Acquire, List, Check:
				continue // without an effect, because nothing else was recorded
			}
		}
		if o.Result != Nothing {
			keys[o.Key] = append(keys[o.Key], o)
		}
	}
	for _, ops := range keys {
		slices.SortStableFunc(ops, func(a, b Operation) int {
			return int(min(max(a.Call-b.Call, -1), 1))
		})
	}
	return keys
}

// String formats an operation on one line.
func (o Operation) String() string {
	end := "never"
	if o.Ended != Forever {
		end = fmt.Sprint(o.Ended)
	}
	return fmt.Sprintf("%d to %s: client %d: %s if %v -> %s %v %q", o.Call, end, o.Client, o.Kind,
		o.Given, o.Result, o.Token, o.Value)
}
