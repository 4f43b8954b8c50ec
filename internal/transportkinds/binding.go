// SPDX-License-Identifier: Apache-2.0

package transportkinds

import (
	"crypto/tls"
	"fmt"
)

// The parameters of the channel binding tls-exporter (RFC 9266, 4.2).
const (
	bindingLabel = "EXPORTER-Channel-Binding"
	bindingBytes = 32
)

// Binding returns the channel binding of a TLS 1.3 connection whose handshake is complete.
func Binding(state tls.ConnectionState) ([]byte, error) {
	b, err := state.ExportKeyingMaterial(bindingLabel, nil, bindingBytes)
	if err != nil {
		return nil, fmt.Errorf("transport: channel binding: %w", err)
	}
	return b, nil
}
