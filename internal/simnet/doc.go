// SPDX-License-Identifier: Apache-2.0

// Package simnet simulates networks for tests. PacketNet is a network of packets for QUIC in a
// testing/synctest bubble, where waiting takes no real time, and TCPHost is TCP on it. An Authority
// issues certificates. A Link is a real path between two hosts of this machine, with its own MTU.
package simnet
