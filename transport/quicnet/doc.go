// SPDX-License-Identifier: Apache-2.0

// Package quicnet connects nodes over QUIC, on one UDP socket or any other net.PacketConn. Both
// ends of a connection authenticate with certificates, under TLS 1.3. SecretTLS derives the
// certificates from a shared secret. CertificateTLS takes them from a PKI, where they name the
// members.
//
// The heartbeats of the protocol decide whether a node is alive; QUIC does not, because its idle
// timeout is long. A process that restarts on the same address with the same ResetKey answers
// packets of more than 42 bytes with a stateless reset. So its peers detect the restart.
//
// If the kernel provides only small buffers, New warns once, with advice. quic-go prints the same
// warning on standard error. To suppress it, a program sets QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING
// to true in its environment, as athena does; a library must not do so.
package quicnet
