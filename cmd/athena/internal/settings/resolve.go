// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/store"
)

// Settle reads the configuration like Read, and checks it against this machine: addresses,
// directories and the store. It leaves nothing open and creates nothing. If the error is a
// cli.UsageError, restarting does not help.
func (s *Settings) Settle(f *pflag.FlagSet, getenv func(string) string) (cluster.Config, error) {
	c, wrong := s.Read(f, getenv)
	var here []error
	if err := store.CheckDirectory(s.FlightRecorder); s.FlightRecorder != "" && err != nil {
		here = append(here, fmt.Errorf("%s: %w", Given(f, "flight-recorder"),
			Allowed(err, "flight-recorder")))
	}
	if s.Admin != AdminOff {
		err := adminapi.TryListen(s.Admin, s.isRestricted())
		if err != nil && !errors.Is(err, adminapi.ErrAddress) { // Read already reported ErrAddress
			here = append(here, fmt.Errorf("%s: %w", Given(f, "admin"), err))
		}
	}
	if wrong != nil { // the checks below need a valid configuration
		return c, cli.Usage(errors.Join(append([]error{wrong}, here...)...))
	}
	if err := c.CheckAddr(); err != nil {
		here = append(here, InFlags(err, f))
	}
	err := c.CheckStore()
	_, isMismatch := errors.AsType[*cluster.StoreMismatchError](err)
	switch {
	case isMismatch || errors.Is(err, store.ErrInsecure): // as a secret file that others can read
		return c, cli.Usage(errors.Join(append(here, InFlags(err, f))...))
	case err != nil:
		here = append(here, Allowed(InFlags(err, f), "data-dir"))
	}
	return c, errors.Join(here...)
}

// Allowed adds the user of this process and a remedy to a permission error. flag is the flag that
// sets the path.
func Allowed(err error, flag string) error {
	at, ok := errors.AsType[*fs.PathError](err)
	if !ok || !errors.Is(at, fs.ErrPermission) {
		return err
	}
	who := strconv.Itoa(os.Geteuid())
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	return fmt.Errorf("%w; this process runs as user %s: run it as the owner of %s, grant the "+
		"user access, or set --%s to another path", err, who, at.Path, flag)
}
