// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"io"
	"time"

	"github.com/hashicorp/memberlist"
)

// memberlistEvents is notified of every change.
type memberlistEvents struct{ notification }

func (e memberlistEvents) NotifyJoin(*memberlist.Node)  { e.notify() }
func (e memberlistEvents) NotifyLeave(*memberlist.Node) { e.notify() }
func (memberlistEvents) NotifyUpdate(*memberlist.Node)  {}

// startMemberlist starts a member that joins the first member. The probe interval is 100 ms, unless
// the defaults for a local network are measured. The others then suspect a silent member for at
// least four intervals, and remove it after about 500 ms.
func startMemberlist(s nodeSetup) (*node, error) {
	cfg := memberlist.DefaultLANConfig()
	if s.Timing != shipped {
		const interval = 100 * time.Millisecond
		cfg.ProbeInterval, cfg.ProbeTimeout, cfg.GossipInterval = interval, interval/2, interval/2
	}
	events := memberlistEvents{newNotification()}
	cfg.Name, cfg.Events, cfg.LogOutput = s.name(s.Index), events, io.Discard
	cfg.BindAddr, cfg.BindPort = "127.0.0.1", s.port(s.Index, 0)
	cfg.AdvertiseAddr, cfg.AdvertisePort = cfg.BindAddr, cfg.BindPort
	list, err := memberlist.Create(cfg)
	if err != nil {
		return nil, err
	}
	if s.Index > 0 {
		go joinMemberlist(list, s.address(0, 0))
	}
	return &node{
		view:    func() nodeView { return nodeView{Members: list.NumMembers()} },
		changed: events.changed,
	}, nil
}

// joinMemberlist retries until the first member listens, as every cold start must.
func joinMemberlist(list *memberlist.Memberlist, first string) {
	const retryInterval = 10 * time.Millisecond
	for {
		if _, err := list.Join([]string{first}); err == nil {
			return
		}
		time.Sleep(retryInterval)
	}
}
