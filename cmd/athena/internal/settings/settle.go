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

// Settle is all that run does before it opens anything: read, and what shows only on
// this machine. The configuration is sound where there is no error. A usageError does
// not get better by starting again.
func (s *Settings) Settle(f *pflag.FlagSet, getenv func(string) string) (cluster.Config, error) {
	c, wrong := s.Read(f, getenv)
	var here []error
	if err := store.CheckDirectory(s.FlightRecorder); s.FlightRecorder != "" && err != nil {
		here = append(here, fmt.Errorf("%s: %w", Given(f, "flight-recorder"),
			Allowed(err, "flight-recorder")))
	}
	if s.Admin != AdminOff {
		err := adminapi.TryListen(s.Admin, s.adminToken != nil)
		if err != nil && !errors.Is(err, adminapi.ErrAddress) { // of which read has told
			here = append(here, fmt.Errorf("%s: %w", Given(f, "admin"), err))
		}
	}
	if wrong != nil { // else it is not known which store and address it must be
		return c, cli.Usage(errors.Join(append([]error{wrong}, here...)...))
	}
	if err := c.CheckAddr(); err != nil {
		here = append(here, InFlags(err, f))
	}
	err := c.CheckStore()
	_, isMismatch := errors.AsType[*cluster.StoreMismatchError](err)
	switch {
	case isMismatch:
		return c, cli.Usage(errors.Join(append(here, InFlags(err, f))...))
	case err != nil:
		here = append(here, Allowed(InFlags(err, f), "data-dir"))
	}
	return c, errors.Join(here...)
}

// Allowed says what to do where the system does not let this process have a file below
// the path of a flag, and who it runs as.
func Allowed(err error, flag string) error {
	at, ok := errors.AsType[*fs.PathError](err)
	if !ok || !errors.Is(at, fs.ErrPermission) {
		return err
	}
	who := strconv.Itoa(os.Geteuid())
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	return fmt.Errorf("%w; this process runs as user %s: start it as the owner of %s, let that "+
		"user read and write it, or name another --%s", err, who, at.Path, flag)
}
