// SPDX-License-Identifier: Apache-2.0

// Package transporttest is the suite that every transport.Network passes below a mesh.Mesh.
// Each test runs in its own testing/synctest bubble, so that seconds there take no time.
// PacketNet is the network of packets for QUIC in such a bubble.
package transporttest
