// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/tlsfiles"
)

// AdminOff is the value of --admin that disables the admin API.
const AdminOff = "off"

// adminSettings are the flags of the admin API, and what their files contain.
type adminSettings struct {
	Admin      string
	AdminWrite bool

	tokenFile, cert, key, clientCA string

	token *admin.Token
	tls   atomic.Pointer[tls.Config] // nil without --admin-cert
}

func (s *adminSettings) define(f *pflag.FlagSet) {
	f.StringVar(&s.Admin, "admin", AdminOff, "address of the admin API: host:port, unix:PATH or off; "+
		"addresses other machines can reach need --admin-token-file or --admin-client-ca")
	f.BoolVar(&s.AdminWrite, "admin-write", false,
		"allow write requests to the admin API: send, transfer, drain, leave, locks, jobs and groups")
	f.StringVar(&s.tokenFile, "admin-token-file", "",
		"file with the token that clients of the admin API must send, mode 0600, "+
			"at least 16 characters")
	f.StringVar(&s.cert, "admin-cert", "",
		"PEM file with the certificate of the admin API, which then uses TLS; use with --admin-key")
	f.StringVar(&s.key, "admin-key", "", "PEM file with the private key of --admin-cert, mode 0600")
	f.StringVar(&s.clientCA, "admin-client-ca", "",
		"PEM file with the CA certificates of clients of the admin API, which then need a certificate")
}

// readAdmin reads the files of the admin API and checks its address.
func (s *adminSettings) readAdmin(found *faults) {
	if s.Admin == AdminOff {
		found.checkThat(!s.AdminWrite || found.isBroken("admin"), "admin-write",
			" needs an admin API: set --admin")
		return
	}
	if !s.readToken(found) || !s.readCertificates(found) {
		return // without further faults for what is missing now
	}
	err := adminapi.CheckListen(s.Admin, s.isRestricted())
	switch {
	case !errors.Is(err, adminapi.ErrOpen):
		found.checkThat(err == nil, "admin", ": %w; or off", err)
	case !found.isBroken("admin-token-file"):
		found.checkThat(false, "admin", ": %w; or set --admin-token-file", err)
	}
}

// readToken reads the token, if there is one, and reports whether it could.
func (s *adminSettings) readToken(found *faults) bool {
	if s.tokenFile == "" {
		return true
	}
	var err error
	s.token, err = admin.ReadToken(s.tokenFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: create it with: athena secret new %s", err, s.tokenFile)
	}
	found.checkThat(err == nil, "admin-token-file", ": %w", err)
	return err == nil
}

// readCertificates reads the files for TLS, if there are any, and reports whether it could.
func (s *adminSettings) readCertificates(found *faults) bool {
	before := len(found.list)
	found.checkThat(s.key != "" || s.cert == "", "admin-cert", " needs --admin-key")
	found.checkThat(s.cert != "" || s.key == "", "admin-key", " needs --admin-cert")
	found.checkThat(s.cert != "" || s.clientCA == "", "admin-client-ca", " needs --admin-cert")
	found.checkThat(s.cert == "" || !strings.HasPrefix(s.Admin, adminapi.UnixPrefix), "admin-cert",
		": a Unix socket needs no TLS: remove it, or set --admin to host:port")
	if s.cert == "" || len(found.list) > before {
		return len(found.list) == before
	}
	pair, err := tlsfiles.ReadPair(s.cert, s.key, time.Now())
	if err != nil {
		found.checkThat(false, "admin-cert", ": %w", err)
		return false
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*pair},
		SessionTicketsDisabled: true, // so that each handshake uses the present files
	}
	if s.clientCA != "" {
		config.ClientCAs, err = tlsfiles.ReadAuthorities(s.clientCA)
		if err != nil {
			found.checkThat(false, "admin-client-ca", ": %w", err)
			return false
		}
	}
	s.tls.Store(config)
	return true
}

// isRestricted reports whether requests need a token or a certificate.
func (s *adminSettings) isRestricted() bool { return s.token != nil || s.clientCA != "" }

// Access returns the access options of the admin API.
func (s *adminSettings) Access() (opts []admin.AccessOption) {
	if s.token != nil {
		opts = append(opts, admin.WithToken(s.token))
	}
	if s.tls.Load() != nil {
		opts = append(opts, admin.WithTLS(s.tls.Load))
	}
	return opts
}

// ReloadAdmin makes the options of Access use the certificates of next. It returns false, without a
// change, if next adds or removes TLS or client certificates, which a running admin API cannot do.
// If next disables the admin API, it has none, and those in use stay until a restart.
func (s *adminSettings) ReloadAdmin(next *Settings) bool {
	if (s.cert == "") != (next.cert == "") || (s.clientCA == "") != (next.clientCA == "") {
		return false
	}
	if config := next.tls.Load(); config != nil {
		s.tls.Store(config)
	}
	return true
}
