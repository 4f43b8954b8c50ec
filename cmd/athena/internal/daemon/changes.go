// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"slices"

	"github.com/athena-go/athena/cmd/athena/internal/settings"
)

// reloadable are the keys whose new values a running node can use.
var reloadable = []string{
	"admin-cert", "admin-client-ca", "admin-key", "label", "log-level", "other-secret-file",
	"preference", "secret-file", "tls-ca", "tls-cert", "tls-key",
}

// adminFiles are the keys of the certificates of the admin API. Adding or removing TLS or client
// certificates needs a restart.
var adminFiles = []string{"admin-cert", "admin-client-ca", "admin-key"}

// noteChanges returns the keys whose values differ from those in use: the reloadable ones, which it
// notes as in use, and the others. Those of adminFiles count as reloadable if adminReloaded.
func (d *daemon) noteChanges(
	next []settings.Effective, adminReloaded bool,
) (changed, fixed []string) {
	for i, e := range next {
		// The keys of groups follow those of the node.
		if i >= len(d.inUse) || e.Key != d.inUse[i].Key || e.Text == d.inUse[i].Text {
			continue
		}
		if slices.Contains(reloadable, e.Key) && (adminReloaded || !slices.Contains(adminFiles, e.Key)) {
			d.inUse[i] = e
			changed = append(changed, e.Key)
		} else {
			fixed = append(fixed, e.Key)
		}
	}
	return changed, fixed
}

// restoreInUse undoes noteChanges for a key whose change failed, so that the next reload tries it
// again.
func (d *daemon) restoreInUse(before []settings.Effective, key string) {
	for i, e := range before {
		if e.Key == key {
			d.inUse[i] = e
		}
	}
}

// noteOverrides notes which keys of the file have no effect, and returns those that have changed,
// each with its place and what overrides it.
func (d *daemon) noteOverrides(next []settings.Override) (changed []string) {
	for _, o := range next {
		same := func(was settings.Override) bool { return was.Key == o.Key && was.Text == o.Text }
		if !slices.ContainsFunc(d.overrides, same) {
			changed = append(changed, fmt.Sprintf("%s: %s (%s)", o.At, o.Key, o.By))
		}
	}
	d.overrides = next
	return changed
}
