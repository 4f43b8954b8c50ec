// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

// TestSignalWhileTheCommandStarts checks that a signal that arrives as soon as the command runs is
// forwarded to it.
func TestSignalWhileTheCommandStarts(t *testing.T) {
	i := NewInterrupts()
	defer i.Stop()
	forwarded := make(chan os.Signal, 1)
	err := i.forwardTo(func() (func(syscall.Signal), error) {
		i.signals <- syscall.SIGQUIT
		for range 1000 {
			runtime.Gosched()
		}
		return func(s syscall.Signal) { forwarded <- s }, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case s := <-forwarded:
		if s != syscall.SIGQUIT {
			t.Errorf("got %v, want SIGQUIT", s)
		}
	case <-i.Done():
		t.Error("the signal has ended the program instead")
	}
	i.endForwarding()
	if i.Err() == nil {
		t.Error("the signal does not end the program after the command")
	}
}
