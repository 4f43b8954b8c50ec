// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/transport/quicnet"
)

// renewalInterval is how often the files are looked at, at most: a handshake
// costs nothing more however many there are.
const renewalInterval = time.Second

// A certificate in the last part of its life was not renewed by who should have.
const lastPart = 10

// renewal has the certificate of this node and the authorities of its cluster, from
// files that may be replaced while it runs. Only handshakes look at it, so that a new
// certificate disturbs no connection. What cannot be used leaves what there is.
type renewal struct {
	cfg settings
	log *slog.Logger
	now func() time.Time

	have atomic.Pointer[credentials]

	reading sync.Mutex // held by who looks at the files, and guards the rest
	read    time.Time
	used    [sha256.Size]byte // of the files that have was made of
	told    string            // what was last warned of; "" while all is well
}

func newRenewal(cfg settings, log *slog.Logger, now func() time.Time) (*renewal, error) {
	r := &renewal{cfg: cfg, log: log, now: now, read: now()}
	files, faults := cfg.readPEM()
	if len(faults) == 0 {
		var made credentials
		made, faults = cfg.credentials(files, cfg.self, now())
		r.have.Store(&made)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	r.used = files.digest()
	return r, nil
}

// current is what the next handshake uses.
func (r *renewal) current() quicnet.Credentials {
	if r.reading.TryLock() { // who does not get it goes on with what there is
		defer r.reading.Unlock()
		r.renew()
	}
	return r.have.Load().Credentials
}

// expires is until when others accept the certificate of this node.
func (r *renewal) expires() time.Time {
	r.current()
	return r.have.Load().until
}

// renew looks at the files, unless that was done just now. The caller holds reading.
func (r *renewal) renew() {
	now := r.now()
	if now.Sub(r.read).Abs() < renewalInterval {
		return
	}
	r.read = now
	files, faults := r.cfg.readPEM()
	about := fmt.Sprint(faults)
	if len(faults) == 0 {
		faults = r.use(files, now)
		// Errors of crypto/x509 hold the time: what stays the same is what the files hold.
		about = fmt.Sprintf("%x", files.digest())
	}
	have := r.have.Load()
	left := have.until.Sub(now)
	var l line
	err := errors.Join(faults...)
	switch {
	case err != nil:
		l = line{slog.LevelWarn,
			"the files of certificates cannot be used: those read before are used on"}
	case left <= 0:
		about, l = "ended", line{slog.LevelWarn, "the certificate of this node, or an " +
			"authority above it, has ended, and no node accepts it any more: replace its files"}
	case left < have.until.Sub(have.Certificate.Leaf.NotBefore)/lastPart:
		about, l = "ends", line{slog.LevelWarn, "the certificate of this node, or an " +
			"authority above it, ends soon: replace its files"}
	default:
		about = ""
	}
	if about != r.told && about != "" { // once, until something else is so
		r.log.LogAttrs(context.Background(), l.level, l.text,
			errAttr(err), slog.Time("until", have.until))
	}
	r.told = about
}

// use makes files that have changed those of the next handshakes. They are looked at
// again and again while they cannot be used: a certificate may only begin later.
func (r *renewal) use(files pemFiles, now time.Time) faults {
	digest := files.digest()
	if digest == r.used {
		return nil
	}
	made, faults := r.cfg.credentials(files, r.cfg.self, now)
	if len(faults) == 0 {
		r.have.Store(&made)
		r.used = digest
		r.log.Info("the files of certificates have changed: the next handshakes use them",
			slog.Time("until", made.until))
	}
	return faults
}
