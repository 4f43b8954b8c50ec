// SPDX-License-Identifier: Apache-2.0

package athenatest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/athenatest"
	"github.com/athena-go/athena/cluster"
)

// TestFormsOverLongPaths checks that a cluster with the timings of WANConfig forms over paths whose
// round trips take up to three quarters of HeartbeatTimeout, also where an unknown node
// must be dialed back over TLS (patroni/patroni#3550).
func TestFormsOverLongPaths(t *testing.T) {
	for _, tls := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls %v", tls), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wan := cluster.WANConfig()
				c := athenatest.New(t, athenatest.Options{
					Size: 3, Delay: wan.HeartbeatTimeout * 3 / 8, TLS: tls,
					Config: func(_ int, cfg *cluster.Config) {
						cfg.HeartbeatInterval, cfg.HeartbeatTimeout = wan.HeartbeatInterval, wan.HeartbeatTimeout
						cfg.LeaderTimeout, cfg.LeaseTimeout = wan.LeaderTimeout, wan.LeaseTimeout
						cfg.TTLTimeout, cfg.RetryInterval = wan.TTLTimeout, wan.RetryInterval
					},
				})
				go c.Start()
				<-time.After(time.Minute)
				if !c.Settled() {
					t.Fatal("no cluster has formed within a minute")
				}
			})
		})
	}
}
