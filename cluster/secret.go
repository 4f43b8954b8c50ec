// SPDX-License-Identifier: Apache-2.0

package cluster

import "github.com/athena-go/athena/internal/tlsfiles"

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
