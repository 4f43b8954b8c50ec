// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

const blockStart = "-----BEGIN "

// parseBlocks returns all PEM blocks of a file. It is stricter than pem.Decode, which skips blocks
// that it cannot read. With pem.Decode, a truncated or indented file would silently lose its last
// authorities.
func parseBlocks(text []byte) (all []*pem.Block, err error) {
	begun := 0
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(bytes.TrimLeft(line, " \t\ufeff"), []byte(blockStart)) {
			begun++
		}
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		all = append(all, block)
	}
	if len(all) < begun {
		return nil, fmt.Errorf("cannot read %d of %d PEM blocks: they are damaged, truncated or "+
			"indented; write the whole file again", begun-len(all), begun)
	}
	return all, nil
}

// parseCertificates returns the certificates of a file, at least one.
func parseCertificates(text []byte) (all []*x509.Certificate, err error) {
	blocks, err := parseBlocks(text)
	if err != nil {
		return nil, err
	}
	other := "" // type of a block that is not a certificate
	for _, block := range blocks {
		if block.Type != "CERTIFICATE" {
			other = block.Type
			continue
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d of the file: %w", len(all)+1, err)
		}
		all = append(all, one)
	}
	switch {
	case len(all) > 0:
		return all, nil
	case other != "":
		return nil, fmt.Errorf("contains %q instead of a certificate: use another file", other)
	default:
		return nil, errors.New("contains no PEM certificate: it must start with " +
			blockStart + "CERTIFICATE-----")
	}
}

// checkKey returns an error unless a file contains an unencrypted private key.
func checkKey(text []byte) error {
	blocks, err := parseBlocks(text)
	if err != nil {
		return err
	}
	for _, block := range blocks {
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
			return errors.New("is encrypted, but a node cannot ask for a passphrase: decrypt it " +
				"with: (umask 077; openssl pkey -in FILE -out KEY)")
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return nil
		}
	}
	return errors.New("contains no PEM private key: it must start with " +
		blockStart + "PRIVATE KEY----- or similar")
}
