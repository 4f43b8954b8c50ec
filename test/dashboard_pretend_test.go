// SPDX-License-Identifier: Apache-2.0

//go:build unix

package test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/member"
)

// pretender answers the page like the server of a cluster with many members. Most are healthy. Each
// possible problem occurs in one member, and some members disagree.
type pretender struct {
	size  int
	name  func(i int) string
	demo  bool
	looks atomic.Int64 // number of requests for the nodes
	jobs  int          // number of jobs, and of other records
	write bool         // it accepts changes
	// version is the version of the view; 0 means 1.
	version uint64
	acts    chan string // POSTs with their bodies; may be nil
	// events answers v1/events; if it is nil, the stream has no events.
	events func(w http.ResponseWriter, r *http.Request)
	began  time.Time
}

func (p *pretender) serve(t *testing.T) (site string) {
	t.Helper()
	p.began = time.Now()
	mux := http.NewServeMux()
	mux.Handle("GET /", admin.Page())
	mux.HandleFunc("GET /v1/nodes", func(w http.ResponseWriter, _ *http.Request) {
		p.looks.Add(1)
		adminapi.WriteJSON(w, http.StatusOK, p.nodes())
	})
	mux.HandleFunc("GET /v1/nodes/{name}/status", func(w http.ResponseWriter, r *http.Request) {
		for i := range p.size {
			if p.name(i) == r.PathValue("name") {
				adminapi.WriteJSON(w, http.StatusOK, p.status(i))
				return
			}
		}
		http.NotFound(w, r)
	})
	mux.HandleFunc("GET /v1/elections", func(w http.ResponseWriter, _ *http.Request) {
		adminapi.WriteJSON(w, http.StatusOK, []adminapi.Election{})
	})
	mux.HandleFunc("GET /v1/jobs", func(w http.ResponseWriter, _ *http.Request) {
		adminapi.WriteJSON(w, http.StatusOK, p.jobList())
	})
	mux.HandleFunc("GET /v1/records", func(w http.ResponseWriter, _ *http.Request) {
		adminapi.WriteJSON(w, http.StatusOK, p.recordList())
	})
	mux.HandleFunc("POST /v1/jobs/{job}/{verb}", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p.acts <- fmt.Sprintf("%s %s %s %s", r.PathValue("verb"), r.PathValue("job"),
			r.Header.Get("Content-Type"), body)
		adminapi.WriteJSON(w, http.StatusOK, adminapi.Done{Status: "ok"})
	})
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if p.events != nil {
			p.events(w, r)
			return
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func (p *pretender) address(i int) member.Address {
	return member.Address{Host: fmt.Sprint("10.0.0.", i+1), Port: 7000}
}

// The nodes with problems.
const (
	pretendedLeader = 2
	pretendedDead   = 4
	pretendedCut    = 5
)

// pretendedStatus returns the status of a member, as the others see it.
func pretendedStatus(i int) member.Status {
	switch i {
	case pretendedDead:
		return member.Unreachable
	case 6:
		return member.Joining
	case 8:
		return member.Leaving
	default:
		return member.Active
	}
}

func (p *pretender) nodes() (all []map[string]any) {
	for i := range p.size {
		n := map[string]any{"name": p.name(i), "address": p.address(i), "alive": i != pretendedDead,
			"self": i == 0 && !p.demo}
		if p.demo {
			n["pid"], n["paused"], n["cut"] = 12345+i, i == 7, i == pretendedCut
		}
		all = append(all, n)
	}
	return all
}

func (p *pretender) status(i int) adminapi.Status {
	const leader = pretendedLeader
	version := max(p.version, 1)
	up := time.Since(p.began)
	frames := uint64(up.Milliseconds())
	s := adminapi.Status{
		Cluster: "orders", Size: p.size, Quorum: p.size/2 + 1,
		Self:  adminapi.Self{Name: p.name(i), Address: p.address(i), Seed: i < 3},
		Role:  "follower",
		View:  adminapi.View{Version: version, Revision: 7, Leader: p.address(leader), Quorate: true},
		Token: version, TermSince: &p.began, Write: p.write, UptimeMS: float64(up.Milliseconds()),
		LastElection: &adminapi.Election{
			Cause: cluster.CauseSilence, Version: version, TookMS: 35.5, Leader: p.address(leader),
			Votes: []member.Address{p.address(0), p.address(1)}, Before: p.address(0),
			Ended: p.began,
			Steps: []adminapi.Step{{Name: "started"}, {Name: "promised", AfterMS: 12}},
		},
		Traffic: adminapi.Traffic{
			Sent:     map[string]adminapi.Frames{"system": {Messages: frames}, "custom": {}},
			Received: map[string]adminapi.Frames{"system": {Messages: frames}, "custom": {}},
		},
	}
	switch i {
	case leader:
		s.Role, s.LeaseRemainingMS = "leader", 900
	case pretendedCut:
		s.View.Leader, s.View.Quorate, s.Token = member.Address{}, false, 0
		s.TermSince, s.NoLeader = nil, "3 of 5 seeds do not answer: no quorum"
	}
	for j := range p.size {
		status := pretendedStatus(j)
		if i == pretendedCut && j != i {
			status = member.Unreachable
		}
		s.View.Members = append(s.View.Members, adminapi.Member{
			Name: p.name(j), Address: p.address(j), Seed: j < 3, Status: status,
		})
		if j != i && (i == leader || j == leader) {
			s.Peers = append(s.Peers, adminapi.Peer{
				Address: p.address(j), Connected: !slices.Contains([]int{pretendedDead, pretendedCut}, j),
				Known: true, RTTMS: 0.4 + float64(j)/10,
			})
		}
	}
	return s
}

// jobList returns jobs that cover every possible condition.
func (p *pretender) jobList() []adminapi.Job {
	all := []adminapi.Job{}
	holder := func(i int) adminapi.Holder {
		i %= p.size
		return adminapi.Holder{Name: p.name(i), Address: p.address(i).String(),
			Token: adminapi.RecordToken{Version: 1, Revision: uint64(i)}}
	}
	for i := range p.jobs {
		j := adminapi.Job{
			Name: fmt.Sprintf("billing-%04d", i), Disabled: []adminapi.Candidate{},
			DisabledHosts: []string{}, Latches: []adminapi.Latch{},
			Known: true,
		}
		if leader := holder(i); i%7 != 3 {
			j.Leader = &leader
		}
		for k := range i % 3 {
			c := holder(i + k + 1)
			j.Disabled = append(j.Disabled, adminapi.Candidate{Name: c.Name, Address: c.Address})
		}
		for k := range i % 8 {
			j.Latches = append(j.Latches, adminapi.Latch{Name: fmt.Sprint("latch ", k),
				Holder: holder(i + k)})
		}
		all = append(all, j)
	}
	return all
}

func (p *pretender) recordList() []adminapi.Record {
	all := []adminapi.Record{}
	for i := range p.jobs {
		all = append(all, adminapi.Record{
			Key: fmt.Sprintf("service/%04d", i), Value: strings.Repeat("<b>value</b> ", i%30),
			Token: adminapi.RecordToken{Version: 1, Revision: uint64(i)}, Revoked: i%9 == 4, Known: true,
			Owner: &adminapi.Owner{Name: p.name(i % p.size), Address: p.address(i % p.size)},
		}, adminapi.Record{Key: fmt.Sprintf("latch/billing-%04d/leader", i), Known: true})
	}
	return all
}
