// SPDX-License-Identifier: Apache-2.0

// Package crashdisk is a disk in memory for the directory of a store, which forgets after a crash
// what was not synced. Tests run the whole of package store on it.
//
// Crash ends all processes. It loses any of the sectors that were written since the last sync of
// their file, regardless of the order of the writes. With Torn, a sector may also be written in
// part. Until the directory is synced, Crash also loses any of its changes (created, renamed and
// removed files), so a renamed file may be on the disk without its content.
//
// A failed sync loses data even if no crash follows: any part of what it should have written is not
// retried by later syncs, which succeed. Until the crash it can still be read. Linux does this, and
// PostgreSQL calls it fsyncgate.
//
// Before is called before each operation. It makes operations fail, stalls them, or calls Crash.
package crashdisk
