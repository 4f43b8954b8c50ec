// SPDX-License-Identifier: Apache-2.0

//go:build unix

package demo

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/athena-go/athena/cmd/athena/internal/command"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/cmd/athena/internal/supervised"
)

// maxReportBytes bounds a line that a node reports.
const maxReportBytes = 1 << 20

// process is a node of the demo while it runs.
type process struct {
	cmd    *exec.Cmd
	orders *os.File // the pipe to its standard input
	exited chan struct{}
}

// startProcess starts this program again as a supervised node. Its log is
// appended to a file. Each report goes to told, and the end of the process to
// ended, both from one goroutine.
func startProcess(
	args []string, log *os.File, told func(supervised.Report), ended func(error),
) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{"run", "--supervised"}, args...)...)
	cmd.Env = withoutOurs(os.Environ())
	cmd.Stderr = log
	// A group of its own: the node is ended by its parent, not by the Ctrl-C
	// that its terminal sends to everybody.
	cmd.SysProcAttr = command.ChildAttributes(syscall.SIGKILL)
	reports, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stdin, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin = stdin
	err = cmd.Start()
	_ = stdin.Close() // the child has its own
	if err != nil {
		return nil, errors.Join(err, orders.Close())
	}
	p := &process{cmd, orders, make(chan struct{})}
	go func() {
		lines := bufio.NewScanner(reports)
		lines.Buffer(nil, maxReportBytes)
		for lines.Scan() {
			var r supervised.Report
			if json.Unmarshal(lines.Bytes(), &r) == nil {
				told(r)
			}
		}
		err := cmd.Wait()
		_ = orders.Close()
		close(p.exited)
		ended(err)
	}()
	return p, nil
}

// withoutOurs takes the variables away that stand for flags.
func withoutOurs(environ []string) []string {
	var rest []string
	for _, v := range environ {
		if !strings.HasPrefix(v, settings.EnvironmentPrefix) {
			rest = append(rest, v)
		}
	}
	return rest
}

func (p *process) processID() int { return p.cmd.Process.Pid }

// sendSignal sends a signal. A process that has ended is no error.
func (p *process) sendSignal(s syscall.Signal) error {
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// orderTimeout bounds how long an order waits for room: a node that is paused
// reads none, and its pipe is full in the end.
const orderTimeout = 100 * time.Millisecond

// giveOrder tells the node to do something; one that has ended takes no orders.
func (p *process) giveOrder(words ...string) error {
	if err := p.orders.SetWriteDeadline(time.Now().Add(orderTimeout)); err != nil {
		return err
	}
	_, err := io.WriteString(p.orders, strings.Join(words, " ")+"\n")
	return err
}

// killAndWait kills the process and waits until it is gone.
func (p *process) killAndWait() {
	_ = p.sendSignal(syscall.SIGKILL) // the only way to fail is that it has ended
	<-p.exited
}
