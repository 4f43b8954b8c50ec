// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "peers: only Linux is supported: it needs network namespaces and /proc")
	os.Exit(3)
}
