// SPDX-License-Identifier: Apache-2.0

// Package programs builds and starts the programs and servers that tests use, and cuts them off.
package programs
