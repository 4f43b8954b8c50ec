// SPDX-License-Identifier: Apache-2.0

package linear

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/test/workload"
)

// state is the state of one key.
type state struct {
	present bool
	token   member.Token // of the record, or zero if it is not known
	top     member.Token // the highest token so far
	holder  int64        // the client that holds the lock, or 0
}

// apply returns the state after an operation, and whether its result is possible.
func (s state) apply(o workload.Operation) (state, bool) {
	holds := true // the condition
	switch o.Kind {
	case workload.Acquire:
		return state{holder: o.Client, top: o.Token}, s.holder == 0 && s.top.Less(o.Token)
	case workload.Release:
		return state{top: s.top}, s.holder == o.Client
	case workload.Create:
		holds = !s.present
	case workload.Update, workload.Drop, workload.Check:
		holds = s.present && s.token == o.Given
	}
	switch {
	case o.Result == workload.Conflict:
		return s, !holds
	case o.Result == workload.Unknown && !holds:
		return s, true
	case o.Kind == workload.Check || !holds:
		return s, holds
	case o.Kind == workload.Drop:
		return state{top: s.top}, true
	case o.Token.IsZero(): // of unknown result, and never listed
		return state{present: true, top: s.top}, true
	}
	return state{present: true, token: o.Token, top: o.Token}, s.top.Less(o.Token)
}

var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, in, _ any) (bool, any) {
		next, ok := s.(state).apply(in.(workload.Operation))
		return ok, next
	},
}

// limit bounds the time to judge one history. A history that takes longer fails.
const limit = time.Minute

// errRefused means that no order of the operations explains their results.
var errRefused = errors.New("not linearizable")

// judgeHistory returns why the history of one key is refused, or nil.
func judgeHistory(ops []workload.Operation) error {
	ops = slices.Clone(ops)
	err := settleTokens(ops)
	if err == nil {
		err = findOrder(ops)
	}
	if err == nil {
		return nil
	}
	var lines strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&lines, "\n\t%v", o)
	}
	return fmt.Errorf("%w%s", err, &lines)
}

// findOrder looks for a legal order of all operations except List.
func findOrder(ops []workload.Operation) error {
	var all []porcupine.Operation
	for i, o := range ops {
		if o.Kind != workload.List {
			all = append(all, porcupine.Operation{ClientId: i, Input: o, Call: o.Call, Return: o.Ended})
		}
	}
	switch porcupine.CheckOperationsTimeout(model, all, limit) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("undecided after %v: %d operations", limit, len(all))
	}
	return errRefused
}

// settleTokens completes each set whose value was listed: it was done before that, with the token
// of the listed record. The error names a value that was not set before, or one with two tokens.
func settleTokens(ops []workload.Operation) error {
	setBy := map[string]*workload.Operation{}
	for i, o := range ops {
		if o.Kind != workload.List && o.Value != "" {
			setBy[o.Value] = &ops[i]
		}
	}
	for _, o := range ops {
		if o.Kind != workload.List || o.Value == "" {
			continue
		}
		by := setBy[o.Value]
		if by == nil || by.Result == workload.Conflict || by.Call > o.Ended {
			return fmt.Errorf("%w: listed, but not set before: %v", errRefused, o)
		}
		if by.Result == workload.Unknown {
			by.Result, by.Token = workload.Done, o.Token
		}
		if by.Token != o.Token {
			return fmt.Errorf("%w: listed with another token: %v, set by %v", errRefused, o, *by)
		}
		by.Ended = min(by.Ended, o.Ended)
	}
	return nil
}
