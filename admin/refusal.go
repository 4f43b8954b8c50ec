// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

func crossSite() error {
	return &refusal{http.StatusForbidden, adminapi.CodeCrossSite,
		"cross-origin request refused"}
}

// failures maps errors to a status and a code. The first match applies.
var failures = []struct {
	is     error
	status int
	code   string
}{
	{cluster.ErrNotElected, http.StatusConflict, adminapi.CodeNotElected},
	{cluster.ErrNoQuorum, http.StatusServiceUnavailable, adminapi.CodeNoQuorum},
	{cluster.ErrNotActive, http.StatusConflict, adminapi.CodeNotActive},
	{cluster.ErrTooLarge, http.StatusRequestEntityTooLarge, adminapi.CodeTooLarge},
	{record.ErrTooLarge, http.StatusRequestEntityTooLarge, adminapi.CodeTooLarge},
	{cluster.ErrUnknownOutcome, http.StatusGatewayTimeout, adminapi.CodeUnknownOutcome},
	{record.ErrUnknownOutcome, http.StatusGatewayTimeout, adminapi.CodeUnknownOutcome},
	{cluster.ErrUnknownType, http.StatusUnprocessableEntity, adminapi.CodeUnknownType},
	{cluster.ErrBusy, http.StatusServiceUnavailable, adminapi.CodeBusy},
	{record.ErrBusy, http.StatusServiceUnavailable, adminapi.CodeBusy},
	{cluster.ErrNotDelivered, http.StatusServiceUnavailable, adminapi.CodeNotDelivered},
	{leader.ErrDisabled, http.StatusConflict, adminapi.CodeDisabled},
	{record.ErrNotHeld, http.StatusConflict, adminapi.CodeNotHeld},
	{record.ErrReleased, http.StatusConflict, adminapi.CodeNotHeld},
	{election.ErrGroupInUse, http.StatusConflict, adminapi.CodeGroupInUse},
	{leader.ErrLeaseEnded, http.StatusServiceUnavailable, adminapi.CodeLeaseEnded},
	{cluster.ErrClosed, http.StatusServiceUnavailable, adminapi.CodeClosed},
	{cluster.ErrLeft, http.StatusServiceUnavailable, adminapi.CodeClosed},
	{context.DeadlineExceeded, http.StatusGatewayTimeout, adminapi.CodeUnknownOutcome},
}

func statusOf(err error) int {
	status, _ := placeError(err)
	return status
}

func codeOf(err error) string {
	_, code := placeError(err)
	return code
}

// placeError returns the status and the code of an error.
func placeError(err error) (status int, code string) {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.status, r.code
	}
	if _, ok := errors.AsType[*cluster.NotLeaderError](err); ok {
		return http.StatusConflict, adminapi.CodeNotLeader
	}
	if _, ok := errors.AsType[*cluster.HandlerError](err); ok {
		return http.StatusUnprocessableEntity, adminapi.CodeHandlerFailed
	}
	for _, f := range failures {
		if errors.Is(err, f.is) {
			return f.status, f.code
		}
	}
	return http.StatusInternalServerError, adminapi.CodeFailed
}
