// SPDX-License-Identifier: Apache-2.0

// Package transporttest is a test suite for a transport.Network below a mesh.Mesh, which
// every implementation must pass. Each test runs in its own testing/synctest bubble, where
// waiting takes no real time. PacketNet simulates a network of packets for QUIC in such a
// bubble, and TCPHost simulates TCP on it. The benchmarks use real sockets.
package transporttest
