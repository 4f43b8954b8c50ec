// SPDX-License-Identifier: Apache-2.0

package cli

import "runtime/debug"

// shortRevision is the number of digits of the commit hash in Build.
const shortRevision = 12

// Build returns the version of the module, plus the commit if the program was built from a working
// copy.
func Build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	name := info.Main.Version
	var revision, modified string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(len(s.Value), shortRevision)]
		case "vcs.modified":
			if s.Value == "true" {
				modified = ", modified"
			}
		}
	}
	if revision != "" {
		name += " (commit " + revision + modified + ")"
	}
	return name
}
