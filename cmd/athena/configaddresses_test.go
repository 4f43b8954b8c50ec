// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/cluster"
)

// TestConfigCheckWarnsOfAddresses checks the warnings about addresses that other nodes cannot
// reach. The resolver knows names that begin with db, and hangs for the name slow.
func TestConfigCheckWarnsOfAddresses(t *testing.T) {
	lookUp := func(ctx context.Context, _, host string) ([]netip.Addr, error) {
		switch {
		case strings.HasPrefix(strings.ToLower(host), "db"), host == "localhost":
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
		case host == "slow":
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, errors.New("no such host")
	}
	const noHost = " is not resolved on this machine: correct the name, or DNS: "
	for _, test := range []struct {
		advertise, seeds string
		want             []string // beginnings of the warnings
	}{
		{"db-1:7000", "db-1:7000,db-2:7000,db-3:7000", nil},
		{"10.0.0.1:7000", "10.0.0.1:7000,[fd00::2]:7000", nil},
		{"127.0.0.1:7001", "127.0.0.1:7001,localhost:7002,[::1]:7003", nil},
		{"db-1:7000", "srv:_athena._udp.example.org", nil},
		{"dp-1:7000", "db-2:7000,bd-3:7000", []string{
			"dp-1:7000" + noHost + "no such host", "bd-3:7000" + noHost + "no such host"}},
		{"slow:7000", "slow:7000,slow:7001", []string{
			"slow:7000" + noHost + "context deadline exceeded",
			"slow:7001" + noHost + "context deadline exceeded"}},
		{"db-1:7000", "db-1:7000,DB-1:7000,DB-1:7001", []string{
			"db-1:7000 and DB-1:7000 differ only in case"}},
		{"10.0.0.1:7000", "10.0.0.1:7000,0.0.0.0:7000,224.0.0.1:7000", []string{
			"seed 0.0.0.0:7000 is no address", "seed 224.0.0.1:7000 is no address"}},
		{"10.0.0.1:7000", "10.0.0.1:7000,127.0.0.1:7000,localhost:7000", []string{
			"127.0.0.1:7000 leads every node to itself", "localhost:7000 leads every node to itself"}},
		{"127.0.0.1:7000", "10.0.0.1:7000,10.0.0.2:7000", []string{
			"127.0.0.1:7000 leads every node to itself"}},
		{"10.0.0.1:7000", "10.0.0.1:7000,10.0.0.02:7000,10.00.0.3:7000", []string{
			"10.0.0.02:7000 is taken as a name", "10.00.0.3:7000 is taken as a name"}},
		{"127.0.0.1:7001", "127.0.0.1:7001,127.0.0.02:7002,0.0.0.0:7003", []string{
			"seed 0.0.0.0:7003 is no address", "127.0.0.02:7002 is taken as a name"}},
		{"10.0.0.300:7000", "", []string{"10.0.0.300:7000" + noHost + "no such host"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := cluster.Config{Advertise: test.advertise, Seeds: strings.Split(test.seeds, ",")}
			var out strings.Builder
			begin := time.Now()
			warnAddresses(t.Context(), &out, c, lookUp)
			if took := time.Since(begin); took > resolveTimeout {
				t.Errorf("%s: took %v, want at most %v", test.advertise, took, resolveTimeout)
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if out.Len() == 0 {
				lines = nil
			}
			if len(lines) != len(test.want) {
				t.Fatalf("%s, %s: got %q, want %q", test.advertise, test.seeds, lines, test.want)
			}
			for i, want := range test.want {
				if !strings.HasPrefix(lines[i], "warning: "+want) {
					t.Errorf("%s, %s: got %q, want %q", test.advertise, test.seeds, lines[i], want)
				}
			}
		})
	}
}
