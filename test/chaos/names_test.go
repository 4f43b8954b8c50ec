// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"net"
	"testing"
	"time"
)

// TestNames asks the name server of a run, as its processes do, also while it is silent.
func TestNames(t *testing.T) {
	w := &world{dir: t.TempDir(), addresses: []string{addressOf(0), addressOf(1)}}
	if err := w.startNames(); err != nil {
		t.Fatal(err)
	}
	defer w.names.Close()
	before := net.DefaultResolver
	defer func() { net.DefaultResolver = before }()
	t.Setenv(namesVariable, w.namesSocket())
	useNames()
	host, _, _ := net.SplitHostPort(w.addresses[1])
	ask := func(host string, limit time.Duration) ([]string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return net.DefaultResolver.LookupHost(ctx, host)
	}
	if got, err := ask(host, time.Minute); err != nil || len(got) != 1 || got[0] != "10.77.0.2" {
		t.Errorf("%s: got %q, %v, want 10.77.0.2", host, got, err)
	}
	if got, err := ask("other.chaos", time.Minute); err == nil {
		t.Errorf("other.chaos: got %q, want no such host", got)
	}
	w.names.silent.Store(true)
	if got, err := ask(host, 100*time.Millisecond); err == nil {
		t.Errorf("%s of a silent server: got %q, want no answer", host, got)
	}
}
