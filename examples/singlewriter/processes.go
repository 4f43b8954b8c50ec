// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// processes are three members of one cluster, each a process of this program.
type processes struct {
	ctx     context.Context
	out     io.Writer
	began   time.Time
	byName  map[string]*exec.Cmd
	lines   chan line // their output, in order of arrival
	reading sync.WaitGroup
}

type line struct{ name, text string }

func startProcesses(ctx context.Context, dir, url string, out io.Writer) (*processes, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	seeds, err := freeAddresses(3)
	if err != nil {
		return nil, err
	}
	p := &processes{
		ctx: ctx, out: out, began: time.Now(), byName: map[string]*exec.Cmd{}, lines: make(chan line),
	}
	for i, addr := range seeds {
		name := fmt.Sprint("n", i+1)
		args := append([]string{"member", name, addr, filepath.Join(dir, name), url}, seeds...)
		if err := p.start(name, exec.Command(self, args...)); err != nil {
			p.end()
			return nil, err
		}
	}
	return p, nil
}

func (p *processes) start(name string, cmd *exec.Cmd) error {
	cmd.Stderr = os.Stderr
	said, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.byName[name] = cmd
	p.reading.Go(func() {
		for s := bufio.NewScanner(said); s.Scan(); {
			p.lines <- line{name, s.Text()}
		}
	})
	return nil
}

// await prints the output of the processes until a line begins with text. The line must be from the
// named process, or from any process if name is empty. await returns that process.
func (p *processes) await(name, text string) (string, error) {
	for {
		select {
		case l := <-p.lines:
			p.say(l.name, l.text)
			if (name == "" || name == l.name) && strings.HasPrefix(l.text, text) {
				return l.name, nil
			}
		case <-p.ctx.Done():
			return "", context.Cause(p.ctx)
		}
	}
}

func (p *processes) signal(name string, s syscall.Signal, says string) error {
	p.say(name, says)
	return p.byName[name].Process.Signal(s)
}

func (p *processes) say(name, text string) {
	fmt.Fprintf(p.out, "%6.2f s  %s %s\n", time.Since(p.began).Seconds(), name, text)
}

// end ends all processes, including a paused one, and prints their remaining output.
func (p *processes) end() {
	for _, cmd := range p.byName {
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails if the process has ended
		_ = cmd.Process.Signal(syscall.SIGCONT)
	}
	go func() {
		p.reading.Wait()
		close(p.lines)
	}()
	for l := range p.lines {
		p.say(l.name, l.text)
	}
	for _, cmd := range p.byName {
		_ = cmd.Wait() // the result does not matter
	}
}

// freeAddresses returns the given number of unused addresses.
func freeAddresses(count int) (addrs []string, err error) {
	for range count {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer c.Close()
		addrs = append(addrs, c.LocalAddr().String())
	}
	return addrs, nil
}
