// SPDX-License-Identifier: Apache-2.0

// Package transporttest is the suite that every transport.Network has to pass,
// below a mesh.Mesh. Each of its tests runs in a testing/synctest bubble of
// its own, so what takes seconds there takes none here. PacketNet is what QUIC is
// given to send its packets through there.
package transporttest
