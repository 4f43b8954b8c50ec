// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/store"
)

// Limits of a server.
const (
	maxBodyBytes      = 64 << 10
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	// writeTimeout is for the body of a request, what it asks for, and the answer. A
	// stream of events has streamTimeout for each write.
	writeTimeout    = readTimeout + adminapi.ActTimeout + 5*time.Second
	idleTimeout     = time.Minute
	shutdownTimeout = time.Second
)

const (
	// maxSocketPath is what the system takes: a longer path can be a name of a socket,
	// by renaming, to which nobody can connect.
	maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1
	// socketBesides is the longest name under which listenUnix makes one.
	socketBesides = "/.a4294967295/s"
)

var (
	// ErrAddress is wrapped by errors about an address on which Listen can never listen.
	ErrAddress = adminapi.ErrAddress
	// ErrNoToken is wrapped by errors about an address that needs WithToken.
	ErrNoToken = errors.New("it is not of this machine alone, which needs a token")
)

// AccessOption changes how an admin API is served, and asked.
type AccessOption func(*access)

type access struct {
	token *Token // nil for none
}

// WithToken makes Serve want a token of its callers, lets Listen and CheckListen
// accept addresses that other machines reach.
func WithToken(t *Token) AccessOption { return func(a *access) { a.token = t } }

func accessOf(opts []AccessOption) (a access) {
	for _, opt := range opts {
		opt(&a)
	}
	return a
}

// CheckListen says what is wrong with an address for Listen, without opening it.
func CheckListen(addr string, opts ...AccessOption) error {
	if path, ok := strings.CutPrefix(addr, adminapi.UnixPrefix); ok {
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
	case !isLoopback(host) && accessOf(opts).token == nil:
		return fmt.Errorf("%w %q: %w; use 127.0.0.1:%s or unix:PATH", ErrAddress, addr, ErrNoToken, port)
	}
	return nil
}

// isLoopback reports whether a host can only be reached from this machine.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// Listen opens "host:port" on loopback, with WithToken on any address, port 0 for any
// that is free, or "unix:PATH", a socket for this user alone. A socket that nobody
// serves any more is replaced.
func Listen(addr string, opts ...AccessOption) (net.Listener, error) {
	if err := CheckListen(addr, opts...); err != nil {
		return nil, err
	}
	var l net.Listener
	var err error
	if path, ok := strings.CutPrefix(addr, adminapi.UnixPrefix); ok {
		l, err = listenUnix(path)
	} else {
		l, err = net.Listen("tcp", addr)
	}
	if err != nil {
		return nil, listenFault(addr, err)
	}
	return l, nil
}

// keptPorts are those below which the system may want a right of who listens.
const keptPorts = 1024

// TryListen says why Listen could not open an address on this machine, apart from a
// process that has it already. It leaves nothing behind, and tries another port than
// that of addr where that tells as much, so that nobody finds the right one taken.
func TryListen(addr string, opts ...AccessOption) error {
	if err := CheckListen(addr, opts...); err != nil {
		return err
	}
	if path, ok := strings.CutPrefix(addr, adminapi.UnixPrefix); ok {
		if err := checkSocket(path); err != nil {
			return listenFault(addr, err)
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
		return listenFault(addr, err)
	}
}

// listenFault says what to do about an error of the system.
func listenFault(addr string, err error) error {
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

// checkSocket finds what is in the way of a socket at path.
func checkSocket(path string) error {
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is no folder: make it, or choose another path", dir)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != os.ModeSocket {
		return errors.New("there is a file that is no socket: choose another path")
	}
	return store.CheckFolder(dir)
}

// listenUnix makes the socket in a folder that nobody else can enter and moves
// it to its place with its mode set, so that at no moment others can connect.
func listenUnix(path string) (net.Listener, error) {
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, errors.New("another process serves it: stop that, or choose another path")
	}
	if err := checkSocket(path); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".a")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it would look for the name of before
	if err := errors.Join(os.Chmod(made, 0o600), os.Rename(made, path)); err != nil {
		l.Close()
		return nil, err
	}
	return &socket{l, path}, nil
}

// socket is a listener that takes its name away when it is closed.
type socket struct {
	net.Listener
	path string
}

// Addr is the name to which the socket was moved.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close implements net.Listener.
func (s *socket) Close() error {
	// First the name: afterwards it may be the socket of a later process.
	return errors.Join(os.Remove(s.path), s.Listener.Close())
}

// AddrOf is the address of a listener as Listen and NewClient take it.
func AddrOf(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return adminapi.UnixPrefix + l.Addr().String()
	}
	return l.Addr().String()
}

// Serve answers on a listener of Listen until ctx ends. The contexts of requests end
// then, and they have a second to answer. It closes l. The error is nil after the end
// of ctx.
//
// On loopback only requests addressed to this machine by its loopback names are
// answered: a page of another site may let its own name resolve to 127.0.0.1, but
// cannot change the Host that browsers send. With WithToken requests must show the
// token; without, an address that other machines reach is refused. Health checks need
// neither that Host nor the token: without them they get the status and the code alone.
//
// At most MaxConnections are open at once, a quarter of them of one other address, and
// half of them of one prefix of IPv6. Above that the oldest connection that is neither a
// stream nor acts is closed for a new one.
func Serve(ctx context.Context, l net.Listener, h http.Handler, opts ...AccessOption) error {
	h = http.MaxBytesHandler(h, maxBodyBytes)
	token := accessOf(opts).token
	if token != nil {
		h = token.requireToken(h)
	}
	switch {
	case isOpen(l):
		if token == nil {
			l.Close()
			return fmt.Errorf("%w %q: %w", ErrAddress, AddrOf(l), ErrNoToken)
		}
	case l.Addr().Network() != "unix":
		h = loopbackHost(h)
	}
	srv := &http.Server{
		Handler:           noteRequests(h),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    adminapi.MaxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConnection,
		ErrorLog:          log.New(io.Discard, "", 0), // it tells of callers, not of the node
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		bound, stop := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer stop()
		if srv.Shutdown(bound) != nil {
			_ = srv.Close() // requests that did not end; nothing else can go wrong
		}
	}()
	err := srv.Serve(newLimited(l))
	cancel()
	<-ended
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("admin: serve on %s: %w", AddrOf(l), err)
}

// isOpen reports whether other machines reach a listener.
func isOpen(l net.Listener) bool {
	at, ok := l.Addr().(*net.TCPAddr)
	return ok && !at.IP.IsLoopback()
}

func loopbackHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = strings.Trim(r.Host, "[]")
		}
		switch {
		case isLoopback(host):
			next.ServeHTTP(w, r)
		case isHealth(r): // a load balancer sends its own Host, or none
			codeAlone(next).ServeHTTP(w, r)
		default:
			adminapi.WriteError(w, http.StatusForbidden, adminapi.CodeForbidden,
				"the Host of a request must be localhost or a loopback address")
		}
	})
}
