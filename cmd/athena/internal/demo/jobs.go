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

// contendPause is how long nobody contends through a node that has ended.
const contendPause = time.Second

// contendForJobs lets every node contend for so many jobs, which nobody works on, until ctx ends.
func (f *fleet) contendForJobs(ctx context.Context, jobs int) {
	for i := range jobs {
		for _, n := range f.nodes {
			go f.contendAt(ctx, n, "job-"+strconv.Itoa(i+1))
		}
	}
}

func (f *fleet) contendAt(ctx context.Context, n *node, job string) {
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
			// Whatever ends this, it begins again while the node runs.
			_ = c.Elect(ctx, job, func(*adminapi.Holder) {}, func(
				ctx context.Context, _ adminapi.RecordToken,
			) error {
				<-ctx.Done()
				return nil
			})
		}
		select {
		case <-time.After(contendPause):
		case <-ctx.Done():
			return
		}
	}
}
