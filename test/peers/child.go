// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"os"
)

// childVariable is the environment variable that makes this program a child of a measurement. It
// contains a child as JSON.
const childVariable = "ATHENA_PEERS_CHILD"

// child is the task of a child process. Exactly one field is set.
type child struct {
	Node      *nodeSetup     `json:",omitempty"` // a node of a cluster
	Receiver  *receiverSetup `json:",omitempty"` // receives messages
	Sender    *senderSetup   `json:",omitempty"` // starts a receiver and sends messages
	Broadcast *senderSetup   `json:",omitempty"` // starts four receivers and sends messages to all
}

// runChild runs the task of a child.
func runChild(text string) error {
	var c child
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	switch {
	case c.Node != nil:
		return runNode(*c.Node, os.Stdin)
	case c.Receiver != nil:
		return runReceiver(*c.Receiver, os.Stdin)
	case c.Sender != nil:
		return runSender(*c.Sender)
	case c.Broadcast != nil:
		return runBroadcast(*c.Broadcast)
	}
	return errors.New("no task in " + childVariable)
}
