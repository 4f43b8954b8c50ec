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
	// maxSocketPath is what the system takes: a longer path can be a name of a socket,
	// by renaming, to which nobody can connect.
	maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1
	// socketBesides is the longest name under which admin.Listen makes one.
	socketBesides = "/.a4294967295/s"
)

// ErrNoToken is wrapped by errors about an address that needs a token.
var ErrNoToken = errors.New("it is not of this machine alone, which needs a token")

// CheckListen returns what is wrong with an address for admin.Listen, without opening it.
// An address that other machines reach needs a token.
func CheckListen(addr string, hasToken bool) error {
	if path, ok := strings.CutPrefix(addr, UnixPrefix); ok {
		if path == "" {
			return fmt.Errorf("%w %q: want unix:PATH", ErrAddress, addr)
		}
		if long := max(len(path), len(filepath.Dir(path)+socketBesides)); long > maxSocketPath {
			return fmt.Errorf("%w %q: the path of a socket must be shorter by %d bytes",
				ErrAddress, addr, long-maxSocketPath)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w %q: want host:port or unix:PATH", ErrAddress, addr)
	case !IsLoopback(host) && !hasToken:
		return fmt.Errorf("%w %q: %w; use 127.0.0.1:%s or unix:PATH", ErrAddress, addr, ErrNoToken, port)
	}
	return nil
}

// IsLoopback reports whether a host can only be reached from this machine.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// keptPorts are those below which the system may want a right of who listens.
const keptPorts = 1024

// TryListen returns why admin.Listen cannot open an address on this machine, unless
// another process has it already. It leaves nothing behind. If it can, it tries another
// port than that of addr, so that no other process finds that one in use.
func TryListen(addr string, hasToken bool) error {
	if err := CheckListen(addr, hasToken); err != nil {
		return err
	}
	if path, ok := strings.CutPrefix(addr, UnixPrefix); ok {
		if err := CheckSocket(path); err != nil {
			return ListenError(addr, err)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if n, _ := strconv.Atoi(port); err == nil && n >= keptPorts {
		port = "0" // any that is free
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

// ListenError returns an error of the system with what to do about it.
func ListenError(addr string, err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err // without the address that was tried
	}
	_, isFile := errors.AsType[*fs.PathError](err)
	_, isUnknown := errors.AsType[*net.DNSError](err)
	_, isOdd := errors.AsType[*net.AddrError](err) // a name without an address that can be used
	advice := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		advice = ": stop the other process or choose another port"
	case errors.Is(err, syscall.EADDRNOTAVAIL), isUnknown, isOdd:
		advice = ": choose an address of this machine"
	case isFile && errors.Is(err, fs.ErrPermission):
		advice = ": choose a path in a folder that this user may write to"
	case errors.Is(err, fs.ErrPermission):
		advice = ": ports below 1024 need a right of their own (CAP_NET_BIND_SERVICE on " +
			"Linux): choose a greater one"
	}
	return fmt.Errorf("admin: listen on %s: %w%s", addr, err, advice)
}

// CheckSocket returns what is in the way of a socket at path.
func CheckSocket(path string) error {
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is no folder: make it, or choose another path", dir)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != os.ModeSocket {
		return errors.New("there is a file that is no socket: choose another path")
	}
	return store.CheckDirectory(dir)
}
