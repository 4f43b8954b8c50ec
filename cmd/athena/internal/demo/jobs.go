// SPDX-License-Identifier: Apache-2.0

//go:build unix

package demo

import (
	"context"
	"strconv"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
)

// campaignPause is the time between two campaigns through the same node.
const campaignPause = time.Second

// campaignForJobs campaigns for the leadership of example jobs through every node, until ctx ends.
// The jobs do no work.
func (f *fleet) campaignForJobs(ctx context.Context, jobs int) {
	for i := range jobs {
		for _, n := range f.nodes {
			go f.campaignAt(ctx, n, "job-"+strconv.Itoa(i+1))
		}
	}
}

func (f *fleet) campaignAt(ctx context.Context, n *node, job string) {
	for {
		var at string
		_, err := f.waitUntil(ctx, func() bool {
			at = n.admin
			return at != ""
		})
		if err != nil {
			return
		}
		if c, err := adminclient.New(at); err == nil {
			// Any error is temporary: the node has stopped or cannot lead.
			_ = c.Elect(ctx, job, func(*adminapi.Holder) {}, func(
				ctx context.Context, _ adminapi.RecordToken,
			) error {
				<-ctx.Done()
				return nil
			})
		}
		select {
		case <-time.After(campaignPause):
		case <-ctx.Done():
			return
		}
	}
}
