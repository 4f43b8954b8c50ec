// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"

	"github.com/athena-go/athena/store"
	"github.com/athena-go/athena/transport"
	"github.com/athena-go/athena/wire"
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

// openTransport listens: by QUIC, unless an option says otherwise.
func (n *Node) openTransport(listen Listen) (*transport.Mesh, error) {
	if listen == nil {
		return nil, errors.New("cluster: no transport was given")
	}
	m, err := listen(transport.Config{
		Encode:      wire.Encode,
		Decode:      wire.Decode,
		Size:        n.cfg.Size,
		CustomBytes: MaxEventBytes,
		Report:      n.reported,
	})
	switch {
	case errors.Is(err, transport.ErrAddressInUse):
		return nil, fmt.Errorf("%w: %s: stop the process that listens there, or use another port: %w",
			ErrAddressInUse, n.cfg.Addr, err)
	case err != nil:
		return nil, fmt.Errorf("cluster: listen on %s: %w", n.cfg.Addr, err)
	}
	return m, nil
}
