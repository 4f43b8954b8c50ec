// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// startProfile writes a CPU profile of this process until the returned function is called.
func startProfile(path string) (stop func() error, err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}

// profile writes CPU profiles of the sender and a receiver until the returned function is called.
// It does nothing if the flags do not request profiles.
func (s senderSetup) profile(r *receiverProcess, name string) (stop func() error, err error) {
	if s.Profiles == "" {
		return func() error { return nil }, nil
	}
	path := filepath.Join(s.Profiles, s.Peer+"-"+name)
	if _, err := r.ask(path + "-receiver.pprof"); err != nil {
		return nil, err
	}
	stopOwn, err := startProfile(path + "-sender.pprof")
	if err != nil {
		return nil, err
	}
	return func() error {
		_, err := r.ask("")
		return errors.Join(err, stopOwn())
	}, nil
}
