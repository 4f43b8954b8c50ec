// SPDX-License-Identifier: Apache-2.0

//go:build unix

package recordtest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/athena-go/athena/election"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/record"
	"github.com/athena-go/athena/test/programs"
)

// memberOf is the environment variable that turns a test into a member. Its value is the address of
// the member's service and the member's id.
const memberOf = "ATHENA_TEST_MEMBER_OF"

// RunMember must be the first call of a TestMain. If Crashes has started this program, RunMember
// opens a member's store with open, leads a job, and never returns.
func RunMember(open func(ctx context.Context, address, id string) (record.Store, error)) {
	address, id, ok := strings.Cut(os.Getenv(memberOf), " ")
	if !ok {
		return
	}
	s, err := open(context.Background(), address, id)
	if err == nil {
		err = reportTerms(context.Background(), s)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// CloseAtEnd closes a store when the test ends.
func CloseAtEnd(t *testing.T, s interface{ Close(context.Context) error }) {
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), programs.Patience)
		defer stop()
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// reportTerms leads a job whenever it can, and prints when each term starts and ends. It returns an
// error if it cannot continue.
func reportTerms(ctx context.Context, s record.Store) error {
	j, err := election.OpenJob(ctx, s, "job", election.JobOptions{})
	if err != nil {
		return err
	}
	return j.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
		token := term.Token()
		fmt.Println("leads", token.Version, token.Revision)
		<-ctx.Done()
		fmt.Println("ended", token.Version, token.Revision)
		return nil
	})
}

// Crashes starts processes that call RunMember with an address. It kills one leader, and pauses
// another for longer than timeout, the timeout of its lease. It checks that the processes lead one
// after another with increasing tokens.
func Crashes(t *testing.T, timeout time.Duration, address string) {
	command := func(id string) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), memberOf+"="+address+" "+id)
		return cmd
	}
	a, b := newLeadingProcess(t, command("a")), newLeadingProcess(t, command("b"))
	first, second := a, b
	var token member.Token
	select {
	case token = <-a.leads:
	case token = <-b.leads:
		first, second = b, a
	case <-time.After(programs.Patience):
		t.Fatalf("no process has become leader within %v", programs.Patience)
	}
	at := time.Now()
	first.signal(syscall.SIGSTOP)
	next := second.next(t, second.leads)
	if took := time.Since(at); took < timeout/2 || !token.Less(next) {
		t.Errorf("token %v follows %v, %v after the leader was paused; "+
			"want a greater token after at least %v", next, token, took, timeout/2)
	}
	first.signal(syscall.SIGCONT)
	if ended := first.next(t, first.ended); ended != token {
		t.Errorf("the term with token %v ended, want the one with token %v", ended, token)
	}
	second.signal(syscall.SIGKILL)
	if last := first.next(t, first.leads); !next.Less(last) {
		t.Errorf("token %v follows %v, want a greater one", last, next)
	}
	again := newLeadingProcess(t, command(map[*leadingProcess]string{a: "a", b: "b"}[second]))
	first.signal(syscall.SIGKILL)
	again.next(t, again.leads)
}

// leadingProcess is a process that calls RunMember.
type leadingProcess struct {
	cmd          *exec.Cmd
	leads, ended chan member.Token
}

func newLeadingProcess(t *testing.T, cmd *exec.Cmd) *leadingProcess {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	l := &leadingProcess{cmd, make(chan member.Token, 100), make(chan member.Token, 100)}
	programs.EndWithParent(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var what string
			var token member.Token
			_, err := fmt.Sscan(lines.Text(), &what, &token.Version, &token.Revision)
			switch {
			case err == nil && what == "leads":
				l.leads <- token
			case err == nil && what == "ended":
				l.ended <- token
			default:
				t.Errorf("%q printed an unexpected line: %q", cmd.Args, lines.Text())
			}
		}
	}()
	t.Cleanup(func() {
		l.signal(syscall.SIGKILL)
		<-read
		_ = cmd.Wait() // the error reports that it was killed
	})
	return l
}

// signal sends a signal. It does nothing if the process has ended.
func (l *leadingProcess) signal(sig syscall.Signal) { _ = l.cmd.Process.Signal(sig) }

// next waits for the next token from the channel.
func (l *leadingProcess) next(t *testing.T, from <-chan member.Token) member.Token {
	t.Helper()
	select {
	case token := <-from:
		return token
	case <-time.After(programs.Patience):
		t.Fatalf("%q printed nothing within %v", l.cmd.Args, programs.Patience)
		return member.Token{}
	}
}
