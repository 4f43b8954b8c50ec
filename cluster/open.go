// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"

	"github.com/athena-go/athena/store"
	"github.com/athena-go/athena/transport"
)

// openStore opens the store in a directory, or one that lasts as long as the
// node where there is none.
func openStore(dir string) (Store, error) {
	if dir == "" {
		return store.NewMemory(), nil
	}
	s, err := store.OpenFile(dir)
	if err != nil {
		return nil, fmt.Errorf("cluster: data directory %s: %w", dir, err)
	}
	return s, nil
}

func openTransport(s settings, st Store) (transport.Transport, error) {
	return nil, errors.New("cluster: no transport was given")
}

// listenError says what to do about an address that is taken.
func listenError(addr string, err error) error {
	if errors.Is(err, transport.ErrAddressInUse) {
		return fmt.Errorf("%w: %s: stop the process that listens there, or use another port: %w",
			ErrAddressInUse, addr, err)
	}
	return fmt.Errorf("cluster: listen on %s: %w", addr, err)
}
