// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/athena-go/athena/internal/adminapi"
)

// AccessOption configures Listen and Serve.
type AccessOption func(*access)

type access struct {
	token *Token             // nil for none
	tls   func() *tls.Config // nil for none
	// needsCertificate reports that requests must come with a client certificate.
	needsCertificate bool
	log              *slog.Logger // nil for none
}

// WithToken makes Serve require a token, and lets Listen accept addresses that other machines can
// reach.
func WithToken(t *Token) AccessOption { return func(a *access) { a.token = t } }

// WithTLS makes Serve use TLS. Serve calls current for each handshake and each request, and every
// 15 s for each stream, so a new configuration applies to open connections too. If ClientCAs is
// set, it must always be set: requests then need a certificate of one of these authorities, and
// Listen accepts addresses that other machines can reach. With WithToken, requests need the token
// too.
func WithTLS(current func() *tls.Config) AccessOption {
	return func(a *access) { a.tls, a.needsCertificate = current, current().ClientCAs != nil }
}

func accessOf(opts []AccessOption) (a access) {
	for _, opt := range opts {
		opt(&a)
	}
	return a
}

// isRestricted reports whether requests need a token or a certificate.
func (a access) isRestricted() bool { return a.token != nil || a.needsCertificate }

// checkCertificate returns an error unless a request comes with a client certificate that is valid
// now and that current authorities have issued.
func (a access) checkCertificate(r *http.Request) error {
	c := a.tls()
	switch {
	case c.ClientCAs == nil: // would stand for the authorities of the system
		return errors.New("no authority of client certificates is configured")
	case r.TLS == nil || len(r.TLS.PeerCertificates) == 0:
		return errors.New("client certificate of an accepted authority required: use " +
			"--admin-client-cert and --admin-client-key")
	}
	certificates := r.TLS.PeerCertificates
	intermediates := x509.NewCertPool()
	for _, one := range certificates[1:] {
		intermediates.AddCert(one)
	}
	_, err := certificates[0].Verify(x509.VerifyOptions{
		Roots: c.ClientCAs, Intermediates: intermediates,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return fmt.Errorf("client certificate refused: %w", err)
	}
	return nil
}

// checkCredentials returns an error unless a request has the certificate and the token that Serve
// requires.
func (a access) checkCredentials(r *http.Request) error {
	if a.needsCertificate {
		if err := a.checkCertificate(r); err != nil {
			return err
		}
	}
	if a.token != nil {
		return a.token.checkToken(r)
	}
	return nil
}

// requireCredentials refuses requests without the token and the certificate that Serve requires,
// except health checks and the files of the page. The page contains no secrets, and asks for the
// token.
func (a access) requireCredentials(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		check := func() error { return a.checkCredentials(r) }
		err := check()
		if err != nil && !errors.Is(err, errNeedsToken) && r.TLS != nil &&
			len(r.TLS.PeerCertificates) > 0 {
			// Verifying is expensive, so a stranger needs a handshake for each attempt.
			w.Header().Set("Connection", "close")
		}
		switch {
		case err == nil:
			a.nameCaller(r)
			setReplaceable(r, time.Now().Add(accessGrace))
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), credentialsKey{}, check)))
		case isHealth(r):
			hideDetails(next).ServeHTTP(w, r)
		case isPage(r):
			next.ServeHTTP(w, r)
		default:
			if a.token != nil {
				w.Header().Set("WWW-Authenticate", `Bearer realm="athena"`)
			}
			adminapi.WriteError(w, http.StatusUnauthorized, adminapi.CodeUnauthorized, err.Error())
		}
	})
}

// credentialsKey is the key of the function that checks the credentials of a request again.
type credentialsKey struct{}

// keepStream protects the connection of a stream from replacement. It returns a context that ends
// with the request, at a call of stop, or when the credentials of the request, which are checked
// every KeepAliveInterval, are no longer valid. Its cause is then a refusal.
func keepStream(r *http.Request) (ctx context.Context, stop func()) {
	keepConnection(r)
	ctx, cancel := context.WithCancelCause(r.Context())
	if check, ok := ctx.Value(credentialsKey{}).(func() error); ok {
		go func() {
			tick := time.NewTicker(adminapi.KeepAliveInterval)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				if err := check(); err != nil {
					cancel(&refusal{http.StatusUnauthorized, adminapi.CodeUnauthorized, err.Error()})
				}
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// refusalOf returns the refusal that ended the context of a stream, or else err.
func refusalOf(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*refusal](context.Cause(ctx)); ok {
		return refused
	}
	return err
}
