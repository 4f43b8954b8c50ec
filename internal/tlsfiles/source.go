// SPDX-License-Identifier: Apache-2.0

package tlsfiles

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/athena-go/athena/internal/fielderr"
	"github.com/athena-go/athena/transport/quicnet"
)

// ReadInterval is the minimum time between two reads of the files.
const ReadInterval = time.Second

// A Source warns during the last tenth (1/expiryPart) of a certificate's lifetime. An automatic
// renewal should have replaced the certificate before that.
const expiryPart = 10

// Event is the kind of a Report.
type Event int

// The events.
const (
	Changed  Event = iota // new files are in use, starting with the next handshake
	Unusable              // the new files have faults; the previous certificate stays in use
	Expiring              // the certificate or its chain expires soon
	Expired               // the certificate has expired: peers refuse it
)

// Report is an Event with its details. Err is set for Unusable. Until is the earliest expiry time
// of the certificates in the chain in use.
type Report struct {
	Event Event
	Err   error
	Until time.Time
}

// Source provides the certificate of a node and the authorities of its cluster, from files that may
// be replaced at run time. It reads the files only when a handshake needs the certificate, so a new
// certificate does not end any connection.
type Source struct {
	files  Files
	id     Identity
	now    func() time.Time
	report func(Report)

	current atomic.Pointer[credentials]

	mu       sync.Mutex // guards the fields below, and is held while the files are read
	lastRead time.Time
	used     [sha256.Size]byte // digest of the files that current was made from
	warned   string            // the last warning; empty after a read without faults
}

// Open reads the files. The Source calls the function report when the files change, when the
// certificate expires, and once for each new fault. The calls are sequential, and report must not
// use the Source.
func Open(files Files, id Identity, now func() time.Time, report func(Report)) (*Source, error) {
	s := &Source{files: files, id: id, now: now, report: report, lastRead: now()}
	texts, faults := files.readFiles()
	if len(faults) == 0 {
		var made credentials
		made, faults = files.parseFiles(texts, id, now())
		s.current.Store(&made)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	s.used = texts.digest()
	return s, nil
}

// Current returns the credentials for the next handshake.
func (s *Source) Current() quicnet.Credentials {
	if s.mu.TryLock() { // if another handshake is reading the files, use the current credentials
		defer s.mu.Unlock()
		s.readAgain()
	}
	return s.current.Load().Credentials
}

// Expires returns the time until which peers accept the certificate.
func (s *Source) Expires() time.Time {
	s.Current()
	return s.current.Load().until
}

// readAgain reads the files if ReadInterval has passed. s.mu must be held.
func (s *Source) readAgain() {
	now := s.now()
	if now.Sub(s.lastRead).Abs() < ReadInterval {
		return
	}
	s.lastRead = now
	texts, faults := s.files.readFiles()
	warning := fmt.Sprint(faults)
	if len(faults) == 0 {
		faults = s.useFiles(texts, now)
		// The errors of crypto/x509 contain the time, so each read returns different texts.
		// The digest of the files identifies the warning instead.
		warning = fmt.Sprintf("%x", texts.digest())
	}
	current := s.current.Load()
	left := current.until.Sub(now)
	r := Report{Err: errors.Join(faults...), Until: current.until}
	switch {
	case r.Err != nil:
		r.Event = Unusable
	case left <= 0:
		warning, r.Event = "expired", Expired
	case left < current.until.Sub(current.Certificate.Leaf.NotBefore)/expiryPart:
		warning, r.Event = "expiring", Expiring
	default:
		warning = ""
	}
	if warning != s.warned && warning != "" {
		s.report(r)
	}
	s.warned = warning
}

// useFiles switches to the files if they have changed. Faulty files are parsed again
// at each read, because a certificate may become valid later.
func (s *Source) useFiles(texts contents, now time.Time) fielderr.List {
	digest := texts.digest()
	if digest == s.used {
		return nil
	}
	made, faults := s.files.parseFiles(texts, s.id, now)
	if len(faults) == 0 {
		s.current.Store(&made)
		s.used = digest
		s.report(Report{Event: Changed, Until: made.until})
	}
	return faults
}
