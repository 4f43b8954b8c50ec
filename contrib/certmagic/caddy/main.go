// SPDX-License-Identifier: Apache-2.0

// Package main is Caddy with a storage whose locks are records of an Athena cluster. It is a module
// of its own, because Caddy compiles for minutes.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

func main() { caddycmd.Main() }
