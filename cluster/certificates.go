// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/athena-go/athena/internal/observe"
	"github.com/athena-go/athena/internal/tlsfiles"
	"github.com/athena-go/athena/transport/quicnet"
)

// tlsFiles returns the files that the configuration names instead of a secret.
func (c Config) tlsFiles() tlsfiles.Files {
	return tlsfiles.Files{CA: c.TLSCA, Cert: c.TLSCert, Key: c.TLSKey}
}

// certificates makes the TLS configuration of a node. The dates of certificates are
// compared with the wall clock, not with the clock of leases.
func (n *Node) certificates() (made *tls.Config, err error) {
	switch {
	case n.cfg.Insecure:
		return quicnet.InsecureTLS(time.Now)
	case n.cfg.tlsFiles().Used():
		if n.identity, err = openCertificates(n.cfg, n.log); err != nil {
			return nil, err
		}
		return quicnet.CertificateTLS(n.identity.Current, time.Now), nil
	}
	secrets := [][]byte{n.cfg.Secret}
	if len(n.cfg.OtherSecret) > 0 {
		secrets = append(secrets, n.cfg.OtherSecret)
	}
	return quicnet.SecretTLS(secrets, n.cfg.Cluster, time.Now)
}

// openCertificates reads the certificate of a node, and logs when its files change.
func openCertificates(cfg settings, log *slog.Logger) (*tlsfiles.Source, error) {
	id := tlsfiles.Identity{Cluster: cfg.Cluster, Self: cfg.self}
	source, err := tlsfiles.Open(cfg.tlsFiles(), id, time.Now, func(r tlsfiles.Report) {
		l := certificateLines[r.Event]
		log.LogAttrs(context.Background(), l.level, l.text,
			observe.ErrAttr(r.Err), slog.Time("until", r.Until))
	})
	return source, asFieldErrors(err)
}

// certificateLines says how each event of the files is logged.
var certificateLines = map[tlsfiles.Event]line{
	tlsfiles.Changed: {slog.LevelInfo,
		"the files of certificates have changed: the next handshakes use them"},
	tlsfiles.Unusable: {slog.LevelWarn,
		"cannot load the TLS files; keeping the previous certificate"},
	tlsfiles.Expired: {slog.LevelWarn, "the certificate of this node, or an " +
		"authority above it, has expired and other nodes refuse it: replace its files"},
	tlsfiles.Expiring: {slog.LevelWarn, "the certificate of this node, or an " +
		"authority above it, expires soon: replace its files"},
}

// resetSecret returns what the key of stateless resets is derived from if no store keeps
// one. Only the nodes of the cluster may know it.
func (c Config) resetSecret() ([]byte, error) {
	if files := c.tlsFiles(); files.Used() {
		key, err := files.ReadKey()
		return key, asFieldErrors(err)
	}
	return c.Secret, nil
}

// ReadSecret reads Config.Secret from a file as the daemon does, so that a program and a
// daemon with the same file have the same secret. All line ends ('\n', '\r') at the end of
// the file are left out, since editors and commands add them; that holds for random bytes
// too. A secret is MinSecretBytes or more random bytes, as they are or in base64, as athena
// secret new and NewSecret make it. Passwords are refused: anyone who reaches a node can
// try them unnoticed. A file of more than 4 KiB is refused, and a file that others than the
// owner may read. A file of root may be readable by its group too if this process is not
// root's: container platforms mount secrets like that.
func ReadSecret(path string) ([]byte, error) { return tlsfiles.ReadSecret(path) }

// NewSecret makes a secret: MinSecretBytes random bytes in base64.
func NewSecret() []byte { return tlsfiles.NewSecret() }
