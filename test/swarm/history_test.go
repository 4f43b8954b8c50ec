// SPDX-License-Identifier: Apache-2.0

//go:build unix

package swarm

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/athena-go/athena/test/workload"
)

var histories = flag.String("histories", "", "directory for the histories of records and locks")

// runHistory runs clients of a record and a lock whose operations are recorded for test/linear.
func runHistory(p *proc, r *rand.Rand, number int) {
	ctx, cancel := context.WithCancel(p.life)
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-p.n.Done():
		case <-ctx.Done():
		}
	}()
	client := func(id int) *workload.Client {
		return &workload.Client{
			ID: int64(id), Store: p.n.Records(), Rand: rand.New(rand.NewPCG(r.Uint64(), 0)),
			Now: func() int64 { return time.Now().UnixNano() }, Tick: 20 * time.Millisecond,
			Record: func(o workload.Operation) {
				p.mu.Lock()
				defer p.mu.Unlock()
				if !p.dead {
					p.history = append(p.history, o)
				}
			},
		}
	}
	records, locks := client(2*p.run), client(2*p.run+1)
	var work running
	defer work.work.Wait()
	work.startNamed("records", func() { records.UseRecord(ctx, fmt.Sprint("history/", number%2)) })
	if err := locks.UseLock(ctx, fmt.Sprint("history", number%2)); err != nil {
		p.failRun("history", "%v", err)
	}
}

// writeHistory writes the operations of a run to a file with one line for each.
func (w *world) writeHistory() {
	if *histories == "" {
		return
	}
	f, err := os.Create(filepath.Join(*histories, fmt.Sprint(w.plan.Seed, ".json")))
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	for lines := json.NewEncoder(f); len(w.history) > 0 && err == nil; w.history = w.history[1:] {
		err = lines.Encode(w.history[0])
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
