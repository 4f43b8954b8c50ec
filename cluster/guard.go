// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/athena-go/athena/internal/diagnosis"
	"github.com/athena-go/athena/internal/safetext"
)

const (
	// guardVariable is a variable that only the guard of a process has.
	guardVariable = "ATHENA_GUARD"
	// parentFD is the file descriptor of a guard that is closed when its parent has ended.
	parentFD = 3
	// guardPause is the pause before another guard replaces one that has ended.
	guardPause = time.Second
)

// Guard runs this program again, as the guard of the node that this process will start with the
// same configuration. When this process ends, however it ends, the guard calls AnnounceEnd: the
// other members elect another leader, and free the node's locks and jobs, within milliseconds. Call
// Guard once, in main, before anything that must not happen twice:
//
//	if err := cluster.Guard(cfg); err != nil {
//		log.Print(err) // the node works without it
//	}
//	node, err := cluster.Start(ctx, cfg)
//
// The guard has the arguments, environment and standard error of this process. It runs main until
// this call, and waits in it. Then it exits, after at most 2 s and without deferred calls. It
// ignores SIGINT, SIGTERM, SIGHUP and SIGQUIT. If it ends before this process, another guard
// replaces it after 1 s. While it waits, it does not wake up, and has about 2 MB of memory of its
// own; it shares the pages of the program with this process.
//
// Guard does not block. It returns an error if the configuration is invalid, if CheckAnnounce
// refuses it, which it always does on systems other than Linux, or if the guard cannot be started.
// If this process is process 1 of a container, the guard ends with it: use the command athena guard
// there.
func Guard(cfg Config, opts ...Option) error {
	log := diagnosis.NewLogger(newOptions(opts).logger, cfg.Name)
	if os.Getenv(guardVariable) != "" {
		os.Exit(guardParent(cfg, opts, log))
	}
	_, err := cfg.parse()
	if err = errors.Join(err, cfg.CheckAnnounce()); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cluster: guard: %w", err)
	}
	parent, alive, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cluster: guard: %w", err)
	}
	cmd := newGuard(program, parent)
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("cluster: guard: %w", err), parent.Close(), alive.Close())
	}
	go keepGuard(cmd, alive, log)
	return nil
}

// newGuard returns a guard that reads from a pipe until this process has ended.
func newGuard(program string, parent *os.File) *exec.Cmd {
	return &exec.Cmd{
		Path: program, Args: os.Args, Env: append(os.Environ(), guardVariable+"=1"),
		Stderr: os.Stderr, ExtraFiles: []*os.File{parent},
	}
}

// keepGuard replaces a guard that has ended, and keeps alive open: the operating system closes it
// with this process.
func keepGuard(cmd *exec.Cmd, alive *os.File, log *slog.Logger) {
	var notStarted error
	for {
		why := errors.Join(notStarted, cmd.Wait())
		log.Warn("the guard of this process has ended: another one replaces it",
			slog.String("error", safetext.PeerText(fmt.Sprint(why))))
		time.Sleep(guardPause)
		cmd = newGuard(cmd.Path, cmd.ExtraFiles[0])
		notStarted = cmd.Start()
		runtime.KeepAlive(alive)
	}
}

// guardParent announces the end of the process that has started this one, and returns the exit
// code.
func guardParent(cfg Config, opts []Option, log *slog.Logger) int {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	debug.FreeOSMemory()
	_, _ = io.Copy(io.Discard, os.NewFile(parentFD, "parent"))
	err := AnnounceEnd(context.Background(), cfg, opts...)
	if err == nil || errors.Is(err, ErrRunning) {
		return 0
	}
	log.Warn("cannot announce the end of the process of this node",
		slog.String("error", safetext.PeerText(err.Error())))
	return 1
}
