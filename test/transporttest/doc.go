// SPDX-License-Identifier: Apache-2.0

// Package transporttest is the test suite that every transport.Network must pass. It tests a
// Network below a mesh.Mesh. Each test runs in its own testing/synctest bubble, where waiting takes
// no real time. The benchmarks use real sockets.
package transporttest
