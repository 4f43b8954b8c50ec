// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/athena-go/athena/cluster"
)

// flagError is an error of package cluster. Instead of fields of cluster.Config, its text names
// flags, or the variables or lines of the file that set them.
type flagError struct {
	err   error
	flags *pflag.FlagSet
}

// InFlags returns err with another text. Instead of fields of cluster.Config, it names flags, or
// the variables or lines of the file that set them.
func InFlags(err error, flags *pflag.FlagSet) error { return flagError{err, flags} }

// Error implements error.
func (e flagError) Error() string {
	text := strings.TrimPrefix(e.describeError(e.err), "cluster: ")
	return strings.TrimPrefix(text, "invalid configuration:\n")
}

// Unwrap returns the error of package cluster.
func (e flagError) Unwrap() error { return e.err }

// describeError returns the text of err, with the names of flags in place of fields.
func (e flagError) describeError(err error) string {
	switch err := err.(type) { //nolint:errorlint // it walks the tree of errors itself
	case *cluster.FieldError:
		return err.Text(e.subjectOf(err), e.mentionOf)
	case *cluster.ConfigMismatchError:
		return err.Text(e.mentionOf(err.Field))
	case *cluster.StoreMismatchError:
		return err.Text(func(field string) string { return Given(e.flags, flagOf[field]) })
	case *cluster.JoinError:
		return err.Text(e.describeError)
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var lines []string
		if cause := e.profileMismatch(joined.Unwrap()); cause != nil {
			lines = append(lines, cause.Text(alsoGiven(e.flags, "profile")))
		}
		for _, one := range joined.Unwrap() {
			lines = append(lines, e.describeError(one))
		}
		return strings.Join(lines, "\n")
	}
	if inner := errors.Unwrap(err); inner != nil {
		return strings.Replace(err.Error(), inner.Error(), e.describeError(inner), 1)
	}
	return err.Error()
}

// profileMismatch returns the likely cause of differences between a peer and this node: the peer
// has all timings of another profile. Otherwise it returns nil.
func (e flagError) profileMismatch(differences []error) *cluster.ConfigMismatchError {
	flag := e.flags.Lookup("profile")
	if flag == nil {
		return nil // athena bench has no profiles
	}
	ours := flag.Value.String()
	profile, known := profiles[ours]
	if !known {
		return nil
	}
	set := profile()
	for _, t := range Timings(&set) {
		if f := e.flags.Lookup(t.Flag); f.Changed {
			*t.Value = durationOf(f.Value.String())
		}
	}
	theirs, differ := set.WithDefaults(), false
	for _, t := range Timings(&theirs) {
		for _, one := range differences {
			m, ok := one.(*cluster.ConfigMismatchError) //nolint:errorlint // as in describeError
			if ok && flagOf[m.Field] == t.Flag {
				*t.Value, differ = durationOf(m.Theirs), true
			}
		}
	}
	for name, other := range profiles {
		of := other().WithDefaults()
		if differ && name != ours && haveEqualTimings(&of, &theirs) {
			return &cluster.ConfigMismatchError{Field: "Profile", Ours: ours, Theirs: name}
		}
	}
	return nil
}

// durationOf parses a duration. It returns 0, which no timing has, if the text is invalid.
func durationOf(text string) time.Duration {
	d, _ := time.ParseDuration(text)
	return d
}

func haveEqualTimings(a, b *cluster.Config) bool {
	return slices.EqualFunc(Timings(a), Timings(b), func(a, b Timing) bool {
		return *a.Value == *b.Value
	})
}

// subjectOf returns the name of a field's flag for use at the beginning of a fault.
func (e flagError) subjectOf(err *cluster.FieldError) string {
	flag, ok := flagOf[err.Field]
	switch {
	case !ok:
		return err.Field
	case err.Index >= 0:
		return elementOf(e.flags, flag, err.Index)
	case isDefaultTiming(e.flags, flag):
		return "the default " + Given(e.flags, flag)
	default:
		return Given(e.flags, flag)
	}
}

// mentionOf returns the name of a field's flag for use within a sentence.
func (e flagError) mentionOf(field string) string {
	flag, ok := flagOf[field]
	switch {
	case !ok:
		return field
	case isDefaultTiming(e.flags, flag):
		return "the default " + Given(e.flags, flag)
	default:
		return alsoGiven(e.flags, flag)
	}
}

// addInvalid adds the faults that cluster.Config.Validate returned. It omits consequences of values
// that could not be read.
func (f *faults) addInvalid(err error) {
	for _, one := range fieldErrors(err) {
		fields := append([]string{one.Field}, one.Mentions()...)
		follows := slices.ContainsFunc(fields, func(field string) bool {
			flag := flagOf[field]
			return f.isBroken(flag) || !f.flags.Changed(flag) && f.isBroken(defaultOf(flag)...)
		})
		if !follows {
			f.list = append(f.list, flagError{one, f.flags})
		}
	}
}

// defaultOf returns the flags that determine the default of a flag.
func defaultOf(flag string) []string {
	switch {
	case flag == "advertise":
		return []string{"addr"}
	case flag == "seeds":
		return []string{"size", "addr", "advertise"}
	case isTiming(flag):
		return []string{"profile"}
	default:
		return nil
	}
}

// fieldErrors returns the individual errors that cluster.Config.Validate has joined.
func fieldErrors(err error) (all []*cluster.FieldError) {
	if one, ok := err.(*cluster.FieldError); ok { //nolint:errorlint // as above
		return []*cluster.FieldError{one}
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			all = append(all, fieldErrors(one)...)
		}
		return all
	}
	if inner := errors.Unwrap(err); inner != nil {
		return fieldErrors(inner)
	}
	return nil
}

// flagOf maps each field of cluster.Config, and the transport, to its flag.
var flagOf = map[string]string{
	"Addr":         "addr",
	"Advertise":    "advertise",
	"Name":         "name",
	"Cluster":      "cluster",
	"Size":         "size",
	"Seeds":        "seeds",
	"JoinOnly":     "join-only",
	"TrustRefusal": "trust-refusal",
	"Preference":   "preference",
	"Labels":       "label",

	"HandOverToPreferred": "hand-over-to-preferred",
	"SeatTimeout":         "seat-timeout",

	"DataDir":           "data-dir",
	"Memory":            "memory",
	"Secret":            "secret-file",
	"SecretFile":        "secret-file",
	"OtherSecret":       "other-secret-file",
	"TLSCA":             "tls-ca",
	"TLSCert":           "tls-cert",
	"TLSKey":            "tls-key",
	"TLSSPIFFE":         "tls-spiffe",
	"Insecure":          "insecure",
	"InsecureAnywhere":  "insecure-anywhere",
	"HeartbeatInterval": "heartbeat-interval",
	"HeartbeatTimeout":  "heartbeat-timeout",
	"LeaderTimeout":     "leader-timeout",
	"LeaseTimeout":      "lease-timeout",
	"TTLTimeout":        "ttl-timeout",
	"RetryInterval":     "retry-interval",
	"OtherTimings":      "other-timings",
	"Transport":         "transport",
}
