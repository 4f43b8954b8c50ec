// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// flagError is an error of the library in the words of this program: flags, or the
// variables that set them, in the place of the fields of cluster.Config.
type flagError struct {
	err   error
	flags *pflag.FlagSet
}

// InFlags returns err in the words of these flags.
func InFlags(err error, flags *pflag.FlagSet) error { return flagError{err, flags} }

// Error implements error.
func (e flagError) Error() string {
	text := strings.TrimPrefix(e.err.Error(), "cluster: ")
	text = strings.TrimPrefix(text, "invalid configuration:\n")
	var b strings.Builder
	end := 0
	for _, at := range fieldNames.FindAllStringSubmatchIndex(text, -1) {
		flag, ok := flagOf[text[at[2]:at[3]]]
		if !ok {
			continue
		}
		b.WriteString(text[end:at[0]])
		begins := at[0] == 0 || text[at[0]-1] == '\n'
		switch {
		case at[4] >= 0:
			b.WriteString(element(e.flags, flag, text[at[4]:at[5]]))
		case isDefaultTiming(e.flags, flag):
			b.WriteString("the default " + Given(e.flags, flag))
		case begins:
			b.WriteString(Given(e.flags, flag))
		default:
			b.WriteString(also(e.flags, flag))
		}
		end = at[1]
	}
	return b.String() + text[end:]
}

// Unwrap gives the error of the library to errors.Is and errors.As.
func (e flagError) Unwrap() error { return e.err }

// flagOf is the flag that sets a field of cluster.Config.
var flagOf = map[string]string{
	"Addr":              "addr",
	"Advertise":         "advertise",
	"Name":              "name",
	"Cluster":           "cluster",
	"Size":              "size",
	"Seeds":             "seeds",
	"JoinOnly":          "join-only",
	"TrustRefusal":      "trust-refusal",
	"DataDir":           "data-dir",
	"Memory":            "memory",
	"Secret":            "secret-file",
	"OtherSecret":       "other-secret-file",
	"TLSCA":             "tls-ca",
	"TLSCert":           "tls-cert",
	"TLSKey":            "tls-key",
	"Insecure":          "insecure",
	"InsecureAnywhere":  "insecure-anywhere",
	"HeartbeatInterval": "heartbeat-interval",
	"HeartbeatTimeout":  "heartbeat-timeout",
	"LeaderTimeout":     "leader-timeout",
	"LeaseTimeout":      "lease-timeout",
	"TTLTimeout":        "ttl-timeout",
	"RetryInterval":     "retry-interval",
}

// fieldNames finds what may be a field, or an element of one. A quoted value is
// matched whole, so that nothing within it is.
var fieldNames = regexp.MustCompile(`("(?:[^"\\\n]|\\.)*"|\b[A-Z][A-Za-z]+\b)(?:\[(\d+)\])?`)
