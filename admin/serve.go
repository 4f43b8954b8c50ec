// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
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

// AccessOption changes how an admin API is served, and asked.
type AccessOption func(*access)

type access struct {
	token *Token // nil for none
}

// WithToken makes Serve want a token of its callers and lets Listen accept
// addresses that other machines reach.
func WithToken(t *Token) AccessOption { return func(a *access) { a.token = t } }

func accessOf(opts []AccessOption) (a access) {
	for _, opt := range opts {
		opt(&a)
	}
	return a
}

// Listen opens "host:port" on loopback, with WithToken on any address, port 0 for any
// that is free, or "unix:PATH", a socket for this user alone. A socket that nobody
// serves any more is replaced.
func Listen(addr string, opts ...AccessOption) (net.Listener, error) {
	if err := adminapi.CheckListen(addr, accessOf(opts).token != nil); err != nil {
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
		return nil, adminapi.ListenError(addr, err)
	}
	return l, nil
}

// listenUnix makes the socket in a folder that nobody else can enter and moves
// it to its place with its mode set, so that at no moment others can connect.
func listenUnix(path string) (net.Listener, error) {
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, errors.New("another process serves it: stop that, or choose another path")
	}
	if err := adminapi.CheckSocket(path); err != nil {
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
// At most 256 connections are open at once, a quarter of them of one other address, and
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
			return fmt.Errorf("%w %q: %w", adminapi.ErrAddress, AddrOf(l), adminapi.ErrNoToken)
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
		case adminapi.IsLoopback(host):
			next.ServeHTTP(w, r)
		case isHealth(r): // a load balancer sends its own Host, or none
			codeAlone(next).ServeHTTP(w, r)
		default:
			adminapi.WriteError(w, http.StatusForbidden, adminapi.CodeForbidden,
				"the Host of a request must be localhost or a loopback address")
		}
	})
}
