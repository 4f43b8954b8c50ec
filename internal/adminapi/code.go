// SPDX-License-Identifier: Apache-2.0

package adminapi

// Error codes.
const (
	CodeNoQuorum         = "no_quorum"          // no leader has authority
	CodeNotVoting        = "not_voting"         // the node has just started and cannot vote yet
	CodeNotSaving        = "not_saving"         // the disk of the node does not answer, or fails
	CodeNotLeader        = "not_leader"         // another node leads
	CodeNotElected       = "not_elected"        // the new leader did not take over
	CodeNotActive        = "not_active"         // the node, or the named member, is not active
	CodeNotFound         = "not_found"          // no such path
	CodeMethodNotAllowed = "method_not_allowed" // the path does not accept the method
	CodeForbidden        = "forbidden"          // the Host is not a loopback name
	CodeCrossSite        = "cross_site"         // cross-origin request
	CodeUnauthorized     = "unauthorized"       // the token is missing or wrong
	CodeReadOnly         = "read_only"          // write requests are not enabled
	CodeBadQuery         = "bad_query"          // unknown or invalid query
	CodeBadRequest       = "bad_request"        // invalid body
	CodeTooLarge         = "too_large"          // the body or the event is too large
	CodeBusy             = "busy"               // too many operations in progress; try again
	CodeNotDelivered     = "not_delivered"      // no handler has received or will receive the event
	CodeUnknownType      = "unknown_type"       // no handler, or the payload cannot be decoded
	CodeHandlerFailed    = "handler_failed"     // a handler returned an error
	CodeUnknownOutcome   = "unknown_outcome"    // the operation may or may not have taken effect
	CodeNoAnswer         = "no_answer"          // another node did not respond in time
	CodeLeaseEnded       = "lease_ended"        // the node was isolated or paused
	CodeDisabled         = "disabled"           // the leader of the job was disabled
	CodeNotHeld          = "not_held"           // the record was deleted or released
	CodeGroupInUse       = "group_in_use"       // another caller of this node takes part in the group
	CodeClosed           = "closed"             // the node is stopping or has stopped
	CodeFailed           = "failed"             // any other error
)
