// SPDX-License-Identifier: Apache-2.0

package messaging

import (
	"errors"
	"fmt"

	"github.com/athena-go/athena/internal/mesh"
	"github.com/athena-go/athena/internal/wire"
	"github.com/athena-go/athena/member"
)

// Limits of messages; package cluster documents them.
const (
	MaxEventBytes      = wire.DefaultEventBytes
	MaxSending         = 1024
	MaxMetadata        = wire.MaxMetadata
	MaxMetadataKey     = wire.MaxMetadataKey
	MaxMetadataValue   = wire.MaxMetadataValue
	MaxBestEffortBytes = mesh.MaxDatagramBytes
	MaxStreamHeadBytes = mesh.MaxHeadBytes
)

// Options holds the options of one Send, Broadcast, Request or OpenStream.
type Options struct {
	Self       bool // a Broadcast also goes to this node
	Metadata   map[string]string
	Outcome    func(to member.Address, err error) // nil if the sender does not wait for the outcome
	BestEffort bool
	Idempotent bool // RequestLeader and RequestOwner repeat a request whose outcome is unknown
}

// Errors of options that contradict each other or do not fit the call.
var (
	errNoOutcome = errors.New("cluster: BestEffort and WithOutcome cannot be combined: the " +
		"outcome of a best-effort event is never known")
	errRequestBestEffort = errors.New("cluster: a request cannot be BestEffort: " +
		"its answer might never arrive")
	errRequestOutcome = errors.New("cluster: a request cannot have WithOutcome: " +
		"it returns its outcome")
	errIdempotent = errors.New("cluster: Idempotent applies only to RequestLeader and " +
		"RequestShard")
	errStreamOption = errors.New("cluster: OpenStream accepts only the option WithMetadata")
)

// checkMetadata returns an error if the entries exceed a limit.
func checkMetadata(entries map[string]string) error {
	if len(entries) > MaxMetadata {
		return fmt.Errorf("%w: metadata of %d entries, want at most %d", ErrTooLarge,
			len(entries), MaxMetadata)
	}
	for k, v := range entries {
		if len(k) > MaxMetadataKey || len(v) > MaxMetadataValue {
			return fmt.Errorf("%w: metadata %.*q: key has %d bytes and value %d, want at most %d and %d",
				ErrTooLarge, MaxMetadataKey, k, len(k), len(v), MaxMetadataKey, MaxMetadataValue)
		}
	}
	return nil
}
