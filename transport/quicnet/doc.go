// SPDX-License-Identifier: Apache-2.0

// Package quicnet connects nodes over QUIC, on one UDP socket, or any other
// net.PacketConn, for the connections of both sides. Both ends show their
// certificates, with TLS 1.3: SecretTLS makes them out of a shared secret, and with
// CertificateTLS they come from a PKI and name the members.
//
// QUIC does not decide who is alive: its idle timeout is long, and the
// heartbeats of the protocol are what counts. A process that is killed and comes
// back on the same address is noticed by its stateless reset, which takes the
// same ResetKey as before and a packet of more than 42 bytes.
//
// Where the kernel gives small buffers, New reports it once, with advice. quic-go
// prints the same on standard error by itself. A program that does not want that
// sets QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING to true in its environment, as athena
// does; a library has no business there.
package quicnet
