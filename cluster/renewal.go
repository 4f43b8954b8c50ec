// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/athena-go/athena/transport/quicnet"
)

// renewalInterval is how often the files are looked at, at most: a handshake
// costs nothing more however many there are.
const renewalInterval = time.Second

// renewal has the certificate of this node and the authorities of its cluster, from
// files that may be replaced while it runs. Only handshakes look at it, so that a new
// certificate disturbs no connection. What cannot be used leaves what there is.
type renewal struct {
	cfg settings
	log zerolog.Logger
	now func() time.Time

	have atomic.Pointer[quicnet.Credentials]

	reading sync.Mutex // held by who looks at the files, and guards the rest
	read    time.Time
	used    [sha256.Size]byte // of the files that have was made of
	told    string            // what was last warned of; "" while all is well
}

func newRenewal(cfg settings, log zerolog.Logger, now func() time.Time) (*renewal, error) {
	r := &renewal{cfg: cfg, log: log, now: now, read: now()}
	files, faults := cfg.readPEM()
	if len(faults) == 0 {
		var made quicnet.Credentials
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
	return *r.have.Load()
}

// expires is when the certificate of this node ends.
func (r *renewal) expires() time.Time { return r.current().Certificate.Leaf.NotAfter }

// renew looks at the files, unless that was done just now. The caller holds reading.
func (r *renewal) renew() {
	now := r.now()
	if now.Sub(r.read).Abs() < renewalInterval {
		return
	}
	r.read = now
	files, faults := r.cfg.readPEM()
	if len(faults) == 0 {
		if faults = r.use(files, now); len(faults) == 0 {
			r.told = ""
			return
		}
	}
	text := errors.Join(faults...).Error()
	// Errors of crypto/x509 hold the time: what stays the same is what the files hold.
	if about := fmt.Sprintf("%x %d", files.digest(), len(faults)); about != r.told {
		r.told = about
		r.log.Warn().Str("error", text).Time("until", r.have.Load().Certificate.Leaf.NotAfter).
			Msg("the files of certificates cannot be used: those read before are used on")
	}
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
		r.log.Info().Time("until", made.Certificate.Leaf.NotAfter).
			Msg("the files of certificates have changed: the next handshakes use them")
	}
	return faults
}
