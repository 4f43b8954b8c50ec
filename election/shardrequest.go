// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"fmt"

	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

// HandleShard makes fn the handler of requests of type Req, like receiver.HandleRequest, for
// cluster.RequestShard. key returns the key of a request, and s is the value whose Run this member
// calls.
//
// fn runs only while this member owns the shard of the key. It gets the term of the shard, whose
// token fences its writes. Its context also ends with the term, and the shard moves only after fn
// has returned. In a member that does not own the shard, fn does not run, and RequestShard asks the
// next owner.
func HandleShard[Req, Resp any](
	mux *receiver.Mux, s *Shards, key func(req Req) string,
	fn func(ctx context.Context, from member.Member, term leader.Term, req Req) (Resp, error),
	opts ...receiver.Option,
) *receiver.Registration {
	run := func(ctx context.Context, from member.Member, req Req) (resp Resp, err error) {
		term, ran := s.ownTerm(key(req)), false
		notOwner := term.Do(ctx, func(ctx context.Context) error {
			ran = true
			resp, err = fn(ctx, from, term, req)
			return nil
		})
		if !ran {
			err = fmt.Errorf("election: shards %q: %w: %w", s.name, receiver.ErrDeclined, notOwner)
		}
		return resp, err
	}
	return receiver.HandleRequest(mux, run, opts...)
}
