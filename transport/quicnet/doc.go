// SPDX-License-Identifier: Apache-2.0

// Package quicnet connects nodes over QUIC, on one UDP socket, or any other
// net.PacketConn, for the connections of both sides. Both ends show their
// certificates, with TLS 1.3; SecretTLS makes them out of a shared secret.
//
// QUIC does not decide who is alive: its idle timeout is long, and the
// heartbeats of the protocol are what counts. A process that is killed and comes
// back on the same address is noticed by its stateless reset, which takes the
// same ResetKey as before and a packet of more than 42 bytes.
package quicnet
