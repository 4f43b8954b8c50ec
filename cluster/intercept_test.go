// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
)

type (
	question struct{ N int }
	reply    struct{ N int }
)

var errDenied = errors.New("denied: only orders of the shop")

// TestRefusalReachesTheSender checks that no handler runs if an interceptor returns an error, and
// that the sender gets the text of the error. The sender waits for an outcome, sends a request to a
// member or to the leader, or opens a stream. The interceptor runs on another member or on the node
// itself.
func TestRefusalReachesTheSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		defer w.close()
		w.receivers = func(int) *receiver.Mux {
			mux := receiver.NewMux(receiver.WithInterceptor(func(
				ctx context.Context, info receiver.Info, next func(context.Context) error,
			) error {
				switch info.Name {
				case "note", "question", "file":
					return errDenied
				}
				return next(ctx)
			}))
			receiver.Handle(mux, func(context.Context, member.Member, note) error {
				t.Error("the handler of note runs")
				return nil
			})
			receiver.HandleRequest(mux, func(
				context.Context, member.Member, question,
			) (reply, error) {
				t.Error("the handler of question runs")
				return reply{}, nil
			})
			receiver.HandleStream(mux, "file", func(
				context.Context, member.Member, receiver.Stream,
			) error {
				t.Error("the handler of the stream runs")
				return nil
			})
			return mux
		}
		w.form()
		check := func(what string, err error) {
			t.Helper()
			failed, ok := errors.AsType[*HandlerError](err)
			if !ok || failed.Text != errDenied.Error() {
				t.Errorf("%s: got %v, want a HandlerError with the text of the interceptor", what, err)
			}
		}
		for to := range 2 {
			outcomes := make(chan error, 1)
			err := w.nodes[0].Send(t.Context(), address(to), note{},
				WithOutcome(func(_ member.Address, err error) { outcomes <- err }))
			if err != nil {
				t.Errorf("Send: %v", err)
			}
			check("outcome", <-outcomes)
			_, err = Request[reply](t.Context(), w.nodes[0], address(to), question{})
			check("request", err)
			_, err = RequestLeader[reply](t.Context(), w.nodes[to], question{})
			check("request to the leader", err)
			s, err := w.nodes[0].OpenStream(t.Context(), address(to), "file")
			if err == nil {
				_, err = io.ReadAll(s)
				s.Close()
			}
			check("stream", err)
		}
		synctest.Wait()
	})
}

// TestHandlerIsAddedToARunningNode checks that a running member answers a request only while it has
// a handler for the request.
func TestHandlerIsAddedToARunningNode(t *testing.T) {
	var muxes [2]*receiver.Mux
	withReceivers(t, 2, func(_ *testing.T, i int, mux *receiver.Mux) { muxes[i] = mux },
		func(t *testing.T, w *world) {
			ask := func() (reply, error) {
				return Request[reply](t.Context(), w.nodes[0], address(1), question{})
			}
			if _, err := ask(); !errors.Is(err, ErrUnknownType) {
				t.Errorf("without a handler: got %v, want ErrUnknownType", err)
			}
			h := receiver.HandleRequest(muxes[1], func(
				context.Context, member.Member, question,
			) (reply, error) {
				return reply{}, nil
			})
			if _, err := ask(); err != nil {
				t.Errorf("with a handler: got %v, want nil", err)
			}
			<-h.Remove()
			if _, err := ask(); !errors.Is(err, ErrUnknownType) {
				t.Errorf("after the removal: got %v, want ErrUnknownType", err)
			}
		})
}
