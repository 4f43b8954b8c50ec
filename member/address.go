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

// MaxHostBytes is the maximum length of the host of an Address, which is that of a DNS name.
const MaxHostBytes = 255

// ErrAddress is wrapped by the errors of ParseAddress and of Address.UnmarshalText.
var ErrAddress = errors.New("member: invalid address")

// Address is the host and port of a member. It identifies the member. The host is a name or an IP
// address, compared as a string: "localhost" and "127.0.0.1" are two members. An IPv6 address has
// its shortest form, and an IPv4 address in it is an IPv4 address. The zero Address
// stands for no member. Addresses are comparable with ==.
type Address struct {
	Host string
	Port uint16
}

// ParseAddress parses HOST:PORT, such as "10.0.0.1:7000", "db-1.local:7000" or "[::1]:7000". It
// returns the shortest form of an IPv6 address: [::1]:7000 for "[0:0::1]:7000". The
// host must be printable, without spaces, slashes or brackets, and 1 to MaxHostBytes long; the
// port must be 1 to 65535. Errors wrap ErrAddress.
func ParseAddress(s string) (Address, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return Address{}, fmt.Errorf("%w %q: want host:port", ErrAddress, s)
	}
	host = shortenIPv6(host)
	if !validHost(host) {
		return Address{}, fmt.Errorf("%w %q: want a host name or IP before the port", ErrAddress, s)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return Address{}, fmt.Errorf("%w %q: want a port from 1 to 65535", ErrAddress, s)
	}
	return Address{Host: host, Port: uint16(n)}, nil
}

// IsValid reports whether a is an address that ParseAddress accepts.
func (a Address) IsValid() bool { return validHost(a.Host) && a.Port != 0 }

func validHost(host string) bool {
	bad := func(r rune) bool {
		return strings.ContainsRune("/[] ", r) || r == utf8.RuneError || !unicode.IsPrint(r)
	}
	return host != "" && len(host) <= MaxHostBytes && !strings.ContainsFunc(host, bad) &&
		host == shortenIPv6(host)
}

// shortenIPv6 returns the only form of an IPv6 address that is valid, so that no host has two
// addresses which differ only in how they are written. It returns any other host unchanged.
func shortenIPv6(host string) string {
	if strings.Contains(host, ":") {
		if ip := net.ParseIP(host); ip != nil {
			return ip.String()
		}
	}
	return host
}

// String returns HOST:PORT in the form that ParseAddress accepts, or "-" for the zero
// Address.
func (a Address) String() string {
	if a.IsZero() {
		return "-"
	}
	return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
}

// observerDomain is the domain of the addresses of observers. No host has such a name (RFC 2606).
const observerDomain = ".observer.invalid"

// ObserverAddress returns an address for an observer with the given id.
func ObserverAddress(id string) Address { return Address{id + observerDomain, 1} }

// IsObserver reports whether a is the address of an observer, which is not a member and has no
// place in the roster. A node cannot have such an address.
func (a Address) IsObserver() bool { return strings.HasSuffix(a.Host, observerDomain) }

// IsZero reports whether a is the zero Address.
func (a Address) IsZero() bool { return a == Address{} }

// Compare orders addresses by host as a string, then by port as a number.
func (a Address) Compare(b Address) int {
	if a.Host != b.Host {
		return strings.Compare(a.Host, b.Host)
	}
	return cmp.Compare(a.Port, b.Port)
}

// MarshalText returns the text of String, or no text for the zero Address.
func (a Address) MarshalText() ([]byte, error) {
	if a.IsZero() {
		return nil, nil
	}
	return []byte(a.String()), nil
}

// UnmarshalText parses the text of MarshalText. Errors wrap ErrAddress.
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
