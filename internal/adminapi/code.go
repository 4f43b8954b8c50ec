// SPDX-License-Identifier: Apache-2.0

package adminapi

// Codes of errors.
const (
	CodeNoQuorum         = "no_quorum"          // nobody leads with authority
	CodeNotVoting        = "not_voting"         // this run votes for no new leader yet
	CodeNotLeader        = "not_leader"         // somebody else does
	CodeNotElected       = "not_elected"        // who was to take over did not
	CodeNotActive        = "not_active"         // the node, or who was named, is no active member
	CodeNotFound         = "not_found"          // there is no such path
	CodeMethodNotAllowed = "method_not_allowed" // the path takes another method
	CodeForbidden        = "forbidden"          // the Host is not of this machine
	CodeCrossSite        = "cross_site"         // the request comes from a page of another site
	CodeUnauthorized     = "unauthorized"       // the token is missing or wrong
	CodeReadOnly         = "read_only"          // the API was not told to act
	CodeBadQuery         = "bad_query"          // the path knows no such query
	CodeBadRequest       = "bad_request"        // the body is not what the path takes
	CodeTooLarge         = "too_large"          // the body, or the event, is
	CodeBusy             = "busy"               // too much is under way; try again
	CodeNotDelivered     = "not_delivered"      // no handler has seen the event, nor will
	CodeUnknownType      = "unknown_type"       // no handler there for the event, or for its payload
	CodeHandlerFailed    = "handler_failed"     // a handler there returned an error
	CodeUnknownOutcome   = "unknown_outcome"    // nobody knows yet what became of it
	CodeNoAnswer         = "no_answer"          // another node did not answer in time
	CodeLeaseEnded       = "lease_ended"        // the node was cut off, or stood still
	CodeDisabled         = "disabled"           // the member was, which led
	CodeNotHeld          = "not_held"           // the record was dropped, by somebody or by this node
	CodeClosed           = "closed"             // the node has ended, or is about to
	CodeFailed           = "failed"             // something else went wrong
)
