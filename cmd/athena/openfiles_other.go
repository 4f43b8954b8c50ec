// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

func openFilesLimit() (uint64, bool) { return 0, false }
