// SPDX-License-Identifier: Apache-2.0

// Package certmagic gives github.com/caddyserver/certmagic locks that a cluster keeps, so that one
// of many processes obtains or renews a certificate. The certificates stay in a storage of
// certmagic, such as a shared directory or a database.
//
//	storage := certmagic.NewStorage(files, node.Records())
//	config := magic.New(cache, magic.Config{Storage: storage})
//
// A process that loses a lock can no longer change the files of that certificate; see Storage.
package certmagic
