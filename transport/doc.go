// SPDX-License-Identifier: Apache-2.0

// Package transport defines the network of a node. Package quicnet implements it over QUIC,
// and package memnet within one process. cluster.WithTransport accepts any other Network.
//
// A connection between two nodes has three streams of frames in each direction, one for each Kind,
// so that events never delay a heartbeat. It also has bulk streams, each with its own flow control,
// and datagrams. The node decides which connections it makes and keeps, exchanges greetings on them
// and gives the bytes their meaning.
package transport
