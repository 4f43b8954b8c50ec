// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
)

// reloadable are the keys whose new values a running node can use.
var reloadable = []string{
	"admin-cert", "admin-client-ca", "admin-key", "label", "log-level", "other-secret-file",
	"preference", "secret-file", "tls-ca", "tls-cert", "tls-key",
}

// serveReloads reloads the configuration on each SIGHUP until the node ends or ctx is done. It
// begins when the node listens: a wrong secret can keep the node from joining until it is replaced.
func (d *daemon) serveReloads(ctx context.Context, node *cluster.Node) {
	for {
		select {
		case <-d.hangups:
			d.reloadConfig(ctx, node)
		case <-node.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// reloadConfig reads the configuration again and logs the outcome. If the configuration is invalid,
// it changes nothing.
func (d *daemon) reloadConfig(ctx context.Context, node *cluster.Node) {
	s, flags, config, err := settings.Reread(d.Flags, os.Getenv)
	if err == nil {
		err = d.Settings.CheckAdminReload(s)
	}
	if err == nil && !(node.Status().Insecure && config.WithDefaults().Insecure) {
		if err = node.SetCredentials(config); err != nil {
			err = settings.InFlags(err, flags)
		}
	}
	if err != nil {
		d.log.Error("cannot reload the configuration: nothing was changed", slog.Any("error", err))
		return
	}
	d.Settings.ReloadAdmin(s)
	before := slices.Clone(d.inUse)
	changed, fixed := d.noteChanges(s.Effective(flags, config))
	setLevel(d.level, s.LogLevel)
	ctx, cancel := context.WithTimeout(ctx, d.leaveTimeout())
	defer cancel()
	// Valid labels are refused only by a node that ends. A preference may be valid only with another
	// new value that needs a restart. A leader that must not lead leads until another member can, even
	// if the context ends before.
	if slices.Contains(changed, "label") {
		_ = node.SetLabels(ctx, config.Labels)
	}
	if slices.Contains(changed, "preference") {
		if err := node.Prefer(ctx, config.Preference); err != nil {
			changed = d.keepBefore(before, changed, "preference")
			d.log.Warn("cannot complete the change of a key: the next reload tries again",
				slog.String("keys", "preference"), slog.Any("error", settings.InFlags(err, flags)))
		}
	}
	d.log.Info("reloaded the configuration", slog.String("changed", strings.Join(changed, ",")))
	if len(fixed) > 0 {
		d.log.Warn("these keys have changed but need a restart: the node keeps their old values",
			slog.String("keys", strings.Join(fixed, ",")))
	}
}

// noteChanges returns the keys whose values differ from those in use: the reloadable ones, which it
// notes as in use, and the others.
func (d *daemon) noteChanges(next []settings.Effective) (changed, fixed []string) {
	for i, e := range next {
		// The keys of groups follow those of the node.
		if i >= len(d.inUse) || e.Key != d.inUse[i].Key || e.Text == d.inUse[i].Text {
			continue
		}
		if slices.Contains(reloadable, e.Key) {
			d.inUse[i] = e
			changed = append(changed, e.Key)
		} else {
			fixed = append(fixed, e.Key)
		}
	}
	return changed, fixed
}

// keepBefore notes that the value in use of a changed key is still that of before, and returns the
// other changed keys.
func (d *daemon) keepBefore(before []settings.Effective, changed []string, key string) []string {
	for i, e := range before {
		if e.Key == key {
			d.inUse[i] = e
		}
	}
	return slices.DeleteFunc(changed, func(one string) bool { return one == key })
}
