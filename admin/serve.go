// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"crypto/tls"
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
	// writeTimeout is the time for the body of a request, its operation and the response. Event
	// streams use streamTimeout for each write instead.
	writeTimeout    = readTimeout + adminapi.ActTimeout + 5*time.Second
	idleTimeout     = time.Minute
	shutdownTimeout = time.Second
)

// withTLS returns a listener whose connections use TLS. One connection carries one request at a
// time, without HTTP/2, because the limits count connections.
func (a access) withTLS(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := a.tls().Clone()
			c.NextProtos = []string{"http/1.1"}
			if a.needsCertificate { // checkCertificate verifies it
				c.ClientAuth = max(c.ClientAuth, tls.RequestClientCert)
			}
			return c, nil
		},
	})
}

// Listen listens on "host:port" or on "unix:PATH". Without a token or client certificates, the host
// must be a loopback address. Port 0 chooses a free port. Only the user of this process can connect
// to a Unix socket; a stale socket file is replaced.
func Listen(addr string, opts ...AccessOption) (net.Listener, error) {
	if err := adminapi.CheckListen(addr, accessOf(opts).isRestricted()); err != nil {
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

// listenUnix creates the socket in a private directory, sets its mode and renames it to path, so
// that other users can never connect.
func listenUnix(path string) (net.Listener, error) {
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, errors.New("socket in use: stop the other process or choose another path")
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
	l.SetUnlinkOnClose(false) // closing l must not remove path after the rename
	if err := errors.Join(os.Chmod(made, 0o600), os.Rename(made, path)); err != nil {
		l.Close()
		return nil, err
	}
	return &socket{l, path}, nil
}

// socket is a listener that removes its file on Close.
type socket struct {
	net.Listener
	path string
}

// Addr returns the final path of the socket.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close implements net.Listener.
func (s *socket) Close() error {
	// Remove comes first: after Close, the path may belong to the socket of another process.
	return errors.Join(os.Remove(s.path), s.Listener.Close())
}

// AddrOf returns the address of a listener in the form that Listen accepts.
func AddrOf(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return adminapi.UnixPrefix + l.Addr().String()
	}
	return l.Addr().String()
}

// Serve serves h on l, a listener of Listen, until ctx ends, and closes l. When ctx ends, the
// contexts of requests end too, requests have one second to finish, and Serve returns nil.
//
// On loopback, the Host of a request must be localhost or a loopback address, so that another site
// cannot use the API through a name that resolves to 127.0.0.1. Requests must carry the token of
// WithToken and a client certificate for WithTLS; without either, Serve refuses a listener that
// other machines can reach. Health checks work with any Host and without either, but their response
// is then only status and code.
//
// At most 256 connections are open, including at most 64 from one remote address and 128 from one
// IPv6 /64. To accept one more, Serve closes the oldest connection, except streams and write
// requests.
func Serve(ctx context.Context, l net.Listener, h http.Handler, opts ...AccessOption) error {
	h = http.MaxBytesHandler(h, maxBodyBytes)
	a := accessOf(opts)
	if a.isRestricted() {
		h = a.requireCredentials(h)
	}
	switch {
	case isOpen(l):
		if !a.isRestricted() {
			l.Close()
			return fmt.Errorf("%w %q: %w", adminapi.ErrAddress, AddrOf(l), adminapi.ErrOpen)
		}
	case l.Addr().Network() != "unix":
		h = loopbackHost(h)
	}
	h = a.auditActions(h)
	srv := &http.Server{
		Handler:           noteRequests(h),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    adminapi.MaxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConnection,
		ErrorLog:          log.New(io.Discard, "", 0), // net/http logs only client errors
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		bound, stop := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer stop()
		if srv.Shutdown(bound) != nil {
			_ = srv.Close() // closes the requests that have not finished
		}
	}()
	var accepted net.Listener = newLimited(l)
	if a.tls != nil {
		accepted = a.withTLS(accepted)
	}
	err := srv.Serve(accepted)
	cancel()
	<-ended
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("admin: serve on %s: %w", AddrOf(l), err)
}

// isOpen reports whether other machines can reach the address of a listener.
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
		case isHealth(r): // load balancers send a different Host, or none
			hideDetails(next).ServeHTTP(w, r)
		default:
			adminapi.WriteError(w, http.StatusForbidden, adminapi.CodeForbidden,
				"Host must be localhost or a loopback address")
		}
	})
}
