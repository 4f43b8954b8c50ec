// SPDX-License-Identifier: Apache-2.0

// Package transport defines what a node needs of a network. A program that passes a Network
// of its own to cluster.WithTransport replaces QUIC; package quicnet implements it over QUIC
// and package memnet within one process.
//
// A connection between two nodes carries three streams of frames in each direction, one for
// each Kind, so that events never delay a heartbeat; bulk streams, each with a flow control
// of its own; and datagrams. The node itself decides which connections it makes and keeps,
// exchanges greets on them and gives the bytes their meaning.
package transport
