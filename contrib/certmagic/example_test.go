// SPDX-License-Identifier: Apache-2.0

package certmagic_test

import (
	"context"
	"crypto/tls"

	magic "github.com/caddyserver/certmagic"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/contrib/certmagic"
)

// serveTLS returns the TLS configuration of one of many servers, which share certificates in a
// directory. One of them obtains each certificate.
func serveTLS(ctx context.Context, node *cluster.Node, domains []string) (*tls.Config, error) {
	files := &magic.FileStorage{Path: "/shared/certificates"} // or any other certmagic.Storage
	config := magic.NewDefault()
	config.Storage = certmagic.NewStorage(files, node.Records())
	if err := config.ManageAsync(ctx, domains); err != nil {
		return nil, err
	}
	return config.TLSConfig(), nil
}

// README.md shows it. It needs a certificate authority, so no test runs it.
var _ = serveTLS
