// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxHostBytes bounds the host of an Address; it is the limit of a DNS name.
const MaxHostBytes = 255

// ErrAddress is wrapped by every error of ParseAddress.
var ErrAddress = errors.New("member: invalid address")

// Address is host and port of a member and thereby its identifier. The host is
// a string, a name or an IP; identity never depends on what it resolves to.
// The zero Address means nobody. Addresses are comparable with ==.
type Address struct {
	Host string
	Port uint16
}

// ParseAddress reads host:port ("10.0.0.1:7000", "db-1.local:7000",
// "[::1]:7000"). The host must not be empty and the port must be 1 to 65535.
func ParseAddress(s string) (Address, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return Address{}, fmt.Errorf("%w %q: want host:port", ErrAddress, s)
	}
	if !validHost(host) {
		return Address{}, fmt.Errorf("%w %q: want a host name or IP before the port", ErrAddress, s)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return Address{}, fmt.Errorf("%w %q: want a port from 1 to 65535", ErrAddress, s)
	}
	return Address{Host: host, Port: uint16(n)}, nil
}

// IsValid reports whether a is an address that ParseAddress could return.
func (a Address) IsValid() bool { return validHost(a.Host) && a.Port != 0 }

func validHost(host string) bool {
	bad := func(r rune) bool {
		return strings.ContainsRune("/[] ", r) || r == utf8.RuneError || !unicode.IsPrint(r)
	}
	return host != "" && len(host) <= MaxHostBytes && !strings.ContainsFunc(host, bad)
}

// String is the host:port form that ParseAddress reads; "-" for nobody.
func (a Address) String() string {
	if a.IsZero() {
		return "-"
	}
	return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
}

// IsZero reports whether a is nobody.
func (a Address) IsZero() bool { return a == Address{} }

// Compare orders addresses: the host as a string, then the port as a number.
func (a Address) Compare(b Address) int {
	return cmp.Or(strings.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
}

// MarshalText writes the form of String, empty for nobody.
func (a Address) MarshalText() ([]byte, error) {
	if a.IsZero() {
		return nil, nil
	}
	return []byte(a.String()), nil
}

// UnmarshalText reads what MarshalText wrote.
func (a *Address) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*a = Address{}
		return nil
	}
	p, err := ParseAddress(string(b))
	if err != nil {
		return err
	}
	*a = p
	return nil
}
