// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"

	"github.com/caddyserver/caddy/v2"
	magic "github.com/caddyserver/certmagic"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/contrib/certmagic"
)

func init() { //nolint:gochecknoinits // the form of every module of Caddy
	caddy.RegisterModule(Storage{})
}

// Storage keeps certificates in a directory that all processes share, and locks in a cluster of
// three. The environment has the parameters of its node: ADDR, SEEDS and DATA_DIR. Caddy starts the
// Storage of a new configuration before it ends the old one. Two nodes cannot share an address, so
// Caddy must be restarted instead.
type Storage struct {
	Root string `json:"root"`

	node *cluster.Node
}

// CaddyModule implements caddy.Module.
func (Storage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID: "caddy.storage.athena", New: func() caddy.Module { return new(Storage) },
	}
}

// Provision implements caddy.Provisioner.
func (s *Storage) Provision(ctx caddy.Context) (err error) {
	s.node, err = cluster.Start(ctx, cluster.Config{
		Addr: os.Getenv("ADDR"), Seeds: strings.Fields(os.Getenv("SEEDS")), Size: 3,
		DataDir: os.Getenv("DATA_DIR"),
	})
	return err
}

// CertMagicStorage implements caddy.StorageConverter.
func (s *Storage) CertMagicStorage() (magic.Storage, error) {
	return certmagic.NewStorage(&magic.FileStorage{Path: s.Root}, s.node.Records()), nil
}

// Cleanup implements caddy.CleanerUpper.
func (s *Storage) Cleanup() error {
	if s.node == nil {
		return nil
	}
	return s.node.Close()
}
