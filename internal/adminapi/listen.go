// SPDX-License-Identifier: Apache-2.0

package adminapi

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/athena-go/athena/internal/store"
)

const (
	// maxSocketPath is the operating system's limit on the length of a socket path. A rename can
	// exceed it, but clients cannot connect to such a socket.
	maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1
	// temporarySocket is the longest temporary name that admin.Listen may use in the directory of a
	// socket.
	temporarySocket = "/.a4294967295/s"
)

// ErrOpen is wrapped by errors about addresses that need a token or client certificates.
var ErrOpen = errors.New(
	"an address that other machines can reach needs a token or client certificates")

// CheckListen returns an error if admin.Listen can never accept an address, for example because
// other machines can reach it and requests are not restricted by a token or client certificates.
// It does not open the address.
func CheckListen(addr string, restricted bool) error {
	if path, ok := strings.CutPrefix(addr, UnixPrefix); ok {
		if path == "" {
			return fmt.Errorf("%w %q: must be unix:PATH", ErrAddress, addr)
		}
		if long := max(len(path), len(filepath.Dir(path)+temporarySocket)); long > maxSocketPath {
			return fmt.Errorf("%w %q: path of the socket is %d bytes too long", ErrAddress, addr,
				long-maxSocketPath)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w %q: must be host:port or unix:PATH", ErrAddress, addr)
	case !IsLoopback(host) && !restricted:
		return fmt.Errorf("%w %q: %w; use 127.0.0.1:%s or unix:PATH", ErrAddress, addr, ErrOpen, port)
	}
	return nil
}

// IsLoopback reports whether a host is localhost or a loopback address.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// privilegedPorts is the first port that an unprivileged process can use.
const privilegedPorts = 1024

// TryListen returns the error that admin.Listen would return for an address of this machine, except
// that an address in use is not an error. If possible, it opens another port than that of addr, so
// that other processes can use the port of addr at the same time.
func TryListen(addr string, restricted bool) error {
	if err := CheckListen(addr, restricted); err != nil {
		return err
	}
	if path, ok := strings.CutPrefix(addr, UnixPrefix); ok {
		if err := CheckSocket(path); err != nil {
			return ListenError(addr, err)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if n, _ := strconv.Atoi(port); err == nil && n >= privilegedPorts {
		port = "0" // any free port
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	switch {
	case err == nil:
		return l.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		return nil
	default:
		return ListenError(addr, err)
	}
}

// ListenError adds a remedy to a system error.
func ListenError(addr string, err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err // without the address
	}
	_, isFile := errors.AsType[*fs.PathError](err)
	_, isUnknown := errors.AsType[*net.DNSError](err)
	_, isUnusable := errors.AsType[*net.AddrError](err) // the name resolves to no usable address
	advice := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		advice = ": stop the other process or choose another port"
	case errors.Is(err, syscall.EADDRNOTAVAIL), isUnknown, isUnusable:
		advice = ": choose an address of this machine"
	case isFile && errors.Is(err, fs.ErrPermission):
		advice = ": choose a path in a directory that this user may write to"
	case errors.Is(err, fs.ErrPermission):
		advice = ": ports below 1024 need a privilege (CAP_NET_BIND_SERVICE on Linux): choose a " +
			"higher port"
	}
	return fmt.Errorf("admin: listen on %s: %w%s", addr, err, advice)
}

// CheckSocket returns an error if a Unix socket cannot be created at path.
func CheckSocket(path string) error {
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is not a directory: create it or choose another path", dir)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != os.ModeSocket {
		return errors.New("the file exists and is not a socket: choose another path")
	}
	return store.CheckDirectory(dir)
}
