// SPDX-License-Identifier: Apache-2.0

// Package certmagic provides github.com/caddyserver/certmagic with locks of a cluster, so that only
// one of many processes obtains or renews a certificate. The certificates stay in a storage of
// certmagic, such as a shared directory or a database.
//
//	storage := certmagic.NewStorage(files, node.Records())
//	config := magic.New(cache, magic.Config{Storage: storage})
//
// A process that loses the lock of a certificate can no longer change its files; see Storage.
package certmagic
