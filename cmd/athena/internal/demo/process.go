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

// maxReportBytes limits the length of a report.
const maxReportBytes = 1 << 20

// process is the running process of a node.
type process struct {
	cmd    *exec.Cmd
	orders *os.File // pipe to its standard input
	exited chan struct{}
}

// startProcess starts this program as a supervised node that logs to a file. A single goroutine
// calls onReport for each report, and onExit when the process has exited.
func startProcess(
	args []string, log *os.File, onReport func(supervised.Report), onExit func(error),
) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{"run", "--supervised"}, args...)...)
	cmd.Env = withoutSettings(os.Environ())
	cmd.Stderr = log
	// In its own process group, the node does not receive the terminal's Ctrl-C.
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
	_ = stdin.Close() // the child process has a copy
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
				onReport(r)
			}
		}
		err := cmd.Wait()
		_ = orders.Close()
		close(p.exited)
		onExit(err)
	}()
	return p, nil
}

// withoutSettings returns environ without the variables that set flags.
func withoutSettings(environ []string) []string {
	var rest []string
	for _, v := range environ {
		if !strings.HasPrefix(v, settings.EnvironmentPrefix) {
			rest = append(rest, v)
		}
	}
	return rest
}

func (p *process) processID() int { return p.cmd.Process.Pid }

// sendSignal sends a signal. It returns no error if the process has exited.
func (p *process) sendSignal(s syscall.Signal) error {
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// orderTimeout limits how long giveOrder blocks if the pipe is full because the node is paused and
// does not read it.
const orderTimeout = 100 * time.Millisecond

// giveOrder sends an order to the node.
func (p *process) giveOrder(words ...string) error {
	if err := p.orders.SetWriteDeadline(time.Now().Add(orderTimeout)); err != nil {
		return err
	}
	_, err := io.WriteString(p.orders, strings.Join(words, " ")+"\n")
	return err
}

// killAndWait kills the process and waits until it has exited.
func (p *process) killAndWait() {
	_ = p.sendSignal(syscall.SIGKILL) // fails only if the process has already exited
	<-p.exited
}
