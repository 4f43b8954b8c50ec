// SPDX-License-Identifier: Apache-2.0

// athena config check: warnings about the addresses of a configuration.

package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/member"
)

// resolveTimeout bounds the time in which config check resolves all names.
const resolveTimeout = 3 * time.Second

// lookUpFunc is the type of net.Resolver.LookupNetIP.
type lookUpFunc func(ctx context.Context, network, host string) ([]netip.Addr, error)

// warnAddresses writes a warning for each address of a node that other nodes probably cannot reach,
// or that one node spells in two ways. c must be valid. It blocks for at most resolveTimeout.
func warnAddresses(ctx context.Context, w io.Writer, c cluster.Config, lookUp lookUpFunc) {
	var all []member.Address // --advertise, and then --seeds
	for _, s := range append([]string{c.Advertise}, c.Seeds...) {
		if a, err := member.ParseAddress(s); err == nil && !slices.Contains(all, a) {
			all = append(all, a) // not the name of SRV records
		}
	}
	for i, a := range all {
		for _, b := range all[:i] {
			if strings.EqualFold(a.String(), b.String()) {
				fmt.Fprintf(w, "warning: %s and %s differ only in case, but are two nodes for Athena: "+
					"use one spelling everywhere\n", b, a)
			}
		}
		ip, err := netip.ParseAddr(a.Host)
		if err == nil && (ip.IsUnspecified() || ip.IsMulticast()) {
			fmt.Fprintf(w, "warning: seed %s is no address of a node: use the one that it advertises\n", a)
		}
	}
	if slices.ContainsFunc(all, isLoopback) && slices.ContainsFunc(all, isElsewhere) {
		for _, a := range all {
			if isLoopback(a) {
				fmt.Fprintf(w, "warning: %s leads every node to itself, but there are nodes on other "+
					"machines: use an address that all nodes reach\n", a)
			}
		}
	}
	warnNames(ctx, w, all, lookUp)
}

func isLoopback(a member.Address) bool {
	ip, err := netip.ParseAddr(a.Host)
	return strings.EqualFold(a.Host, "localhost") || err == nil && ip.IsLoopback()
}

// isElsewhere reports whether an address can be that of a node on another machine.
func isElsewhere(a member.Address) bool {
	ip, err := netip.ParseAddr(a.Host)
	isNoNode := err == nil && (ip.IsUnspecified() || ip.IsMulticast()) || hasLeadingZero(a.Host)
	return !isNoNode && !isLoopback(a)
}

// warnNames writes a warning for each host that is not an IP address and is not resolved here.
func warnNames(ctx context.Context, w io.Writer, all []member.Address, lookUp lookUpFunc) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	faults := make([]chan error, len(all))
	for i, a := range all {
		faults[i] = make(chan error, 1)
		if _, err := netip.ParseAddr(a.Host); err == nil {
			faults[i] <- nil
			continue
		}
		go func() {
			_, err := lookUp(ctx, "ip", a.Host)
			faults[i] <- err
		}()
	}
	for i, a := range all {
		err := <-faults[i]
		switch {
		case hasLeadingZero(a.Host):
			fmt.Fprintf(w, "warning: %s is taken as a name: write the IPv4 address without leading "+
				"zeros\n", a)
		case err != nil:
			fmt.Fprintf(w, "warning: %s is not resolved on this machine: correct the name, or DNS: %v\n",
				a, err)
		}
	}
}

// hasLeadingZero reports whether a host is an IPv4 address except for zeros before its numbers.
func hasLeadingZero(host string) bool {
	parts := strings.Split(host, ".")
	for i, p := range parts {
		if parts[i] = strings.TrimLeft(p, "0"); parts[i] == "" && p != "" {
			parts[i] = "0"
		}
	}
	ip, err := netip.ParseAddr(strings.Join(parts, "."))
	return err == nil && ip.Is4() && ip.String() != host
}
