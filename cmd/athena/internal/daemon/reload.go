// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
)

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
	if err == nil && !(node.Status().Insecure && config.WithDefaults().Insecure) {
		if err = node.SetCredentials(config); err != nil {
			err = settings.InFlags(err, flags)
		}
	}
	if err != nil {
		d.log.Error("cannot reload the configuration: nothing was changed", slog.Any("error", err))
		return
	}
	before := slices.Clone(d.inUse)
	changed, fixed := d.noteChanges(s.Effective(flags, config), d.Settings.ReloadAdmin(s))
	setLevel(d.level, s.LogLevel)
	ctx, cancel := context.WithTimeout(ctx, d.leaveTimeout())
	defer cancel()
	// Valid labels are refused only by a node that ends. A preference may be valid only with another
	// new value that needs a restart. A leader that must not lead leads until another member can, even
	// if the context ends before.
	if slices.Contains(changed, "label") {
		d.labels <- struct{}{}
		_ = node.SetLabels(ctx, config.Labels)
		<-d.labels
	}
	if slices.Contains(changed, "preference") {
		if err := node.Prefer(ctx, config.Preference); err != nil {
			d.restoreInUse(before, "preference")
			changed = slices.DeleteFunc(changed, func(key string) bool { return key == "preference" })
			d.log.Warn("cannot complete the change of a key: the next reload tries again",
				slog.String("keys", "preference"), slog.Any("error", settings.InFlags(err, flags)))
		}
	}
	d.log.Info("reloaded the configuration",
		slog.String("changed", cmp.Or(strings.Join(changed, ","), "none")))
	if len(fixed) > 0 {
		d.log.Warn("these keys have changed but need a restart: the node keeps their old values",
			slog.String("keys", strings.Join(fixed, ",")))
	}
	if without := d.noteOverrides(settings.Overrides(flags)); len(without) > 0 {
		d.log.Warn("these keys of the file have changed but have no effect: a flag or variable "+
			"overrides each", slog.String("keys", strings.Join(without, ", ")))
	}
}

// guardLabels returns a handler like api, in which no reload changes labels during a request that
// does. Such a request reads the labels and writes them back, and would undo the reload in between.
func (d *daemon) guardLabels(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/labels" {
			// A slow caller must not hold up a reload. admin.Serve limits the body; api reads an error
			// again and answers it.
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body))
			d.labels <- struct{}{}
			defer func() { <-d.labels }()
		}
		api.ServeHTTP(w, r)
	})
}
