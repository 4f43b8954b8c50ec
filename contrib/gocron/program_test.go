// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gocron_test

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/athena-go/athena/test/programs"
)

// TestProgram runs the example of gocron for distributed schedulers as three processes, and kills
// the process that leads, two times. The example has three schedulers in one process, and changes
// the leader after five seconds. Here each process has one scheduler.
func TestProgram(t *testing.T) {
	t.Parallel()
	binary := programs.BuildProgram(t, "github.com/go-co-op/gocron/v2/examples/elector",
		"elector.go",
		"i < 3", "i < 1",
		`&myElector{
				num: i,
			}
			if i == 0 {
				elector.leader = true
			}
`, "startElector()\n",
		`			if i == 0 {
				time.Sleep(5 * time.Second)
				elector.leader = false
			}
			if i == 1 {
				time.Sleep(5 * time.Second)
				elector.leader = true
			}
`, "")
	p := programs.StartPrograms(t, func(int) *exec.Cmd { return exec.Command(binary) })
	first := p.NextWorker(0, 3, "run job")
	second := p.NextWorker(p.End(first, syscall.SIGKILL), 3, "run job")
	p.Start(first)
	if again := p.NextWorker(p.Mark(), 3, "run job"); again != second {
		t.Errorf("process %d took the lead from process %d", again, second)
	}
	if third := p.NextWorker(p.End(second, syscall.SIGKILL), 3, "run job"); third == second {
		t.Errorf("process %d was killed and continues", second)
	}
}
