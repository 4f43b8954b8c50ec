// SPDX-License-Identifier: Apache-2.0

// athena recover: let a node forget a cluster that can never elect a leader again.

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/internal/store"
)

// errUnconfirmed says that recover changed nothing, since nobody told it to.
var errUnconfirmed = errors.New("nothing was changed")

func newRecover() *cobra.Command {
	var dir, confirm string
	cmd := &cobra.Command{
		Use:   "recover --data-dir DIR [--confirm CLUSTER]",
		Short: "DANGEROUS: let a node forget a cluster that can never elect again",
		Long: "recover is for the day on which so many data directories were lost for good that fewer\n" +
			"than a majority are left. The nodes that have theirs then say \"too many members lost\n" +
			"their stores to elect a leader\" (athena status, and their log), and wait for the lost\n" +
			"directories for ever. Bring those back where you can: that loses nothing.\n\n" +
			"Else stop all nodes, run recover with the directory of EACH node that still has one,\n" +
			"and start all nodes, without --join-only. They make a new cluster:\n\n" +
			"  - Fencing tokens begin at 1 again. What you protect with them refuses the\n" +
			"    new leaders until its greatest token is reset.\n" +
			"  - A directory that was left out keeps its node out of the new cluster. If that\n" +
			"    node is a seed and runs, the others cannot make one.\n" +
			"  - Where a majority runs after all, with disks that were only out of reach,\n" +
			"    there are two clusters then, with a leader each.\n\n" +
			"Without --confirm it only shows what would be forgotten, and ends with 1. With it the\n" +
			"state is kept in the same directory under another name. The node must not run.",
		Example: "  athena recover --data-dir /var/lib/athena\n" +
			"  athena recover --data-dir /var/lib/athena --confirm orders",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := settings.FromEnvironment(cmd.Flags(), os.Getenv, "data-dir"); err != nil {
				return err
			}
			if dir == "" {
				return cli.Usage(errors.New("--data-dir: name the directory of the node that shall forget"))
			}
			return forgetStore(cmd.OutOrStdout(), dir, confirm)
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "directory of the node's store; also ATHENA_DATA_DIR")
	cmd.Flags().StringVar(&confirm, "confirm", "", "name of the cluster: forget its state")
	return cmd
}

// forgetStore shows what the store in dir holds and, when its cluster is confirmed, makes
// it the store of a new member.
func forgetStore(w io.Writer, dir, confirm string) (err error) {
	// Opening a store makes it where there is none.
	if _, known, err := store.Peek(dir); err != nil {
		return err
	} else if !known {
		return fmt.Errorf("there is no store in %s: name the --data-dir of the node itself", dir)
	}
	s, err := store.OpenFile(dir)
	if errors.Is(err, store.ErrLocked) {
		return fmt.Errorf("the node must not run: %w", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	c, known, err := s.Load()
	if err != nil {
		return err
	}
	if !known || c.IsUnused() {
		return fmt.Errorf("%s: %w; this node can start as it is", dir, store.ErrUnused)
	}
	if err := showStore(w, c); err != nil {
		return err
	}
	switch confirm {
	case c.Origin.Cluster:
	case "":
		return fmt.Errorf("%w; read athena recover --help, and add --confirm %q to go on",
			errUnconfirmed, c.Origin.Cluster)
	default:
		return cli.Usage(fmt.Errorf("--confirm %q: the store is of cluster %q; %w",
			confirm, c.Origin.Cluster, errUnconfirmed))
	}
	kept, err := s.Forget()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\nForgotten; kept in %s.\nNext: the same with every other directory "+
		"that is left, then start all nodes. Tokens begin at 1.\n", kept)
	return err
}

// showStore writes what a store holds, for people.
func showStore(w io.Writer, c store.Content) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(what string, value any) { fmt.Fprintf(t, "%s\t%v\n", what, value) }
	line("cluster", c.Origin.Cluster)
	line("size", c.Origin.Size)
	line("address", c.Origin.Address)
	line("store id", c.StoreID)
	line("state held", fmt.Sprintf("version (token) %d, revision %d", c.Held.Version, c.Held.Revision))
	if !c.Promised.IsZero() {
		line("promised", fmt.Sprintf("version %d", c.Promised.Version))
	}
	if !c.Accepted.IsZero() {
		line("accepted", fmt.Sprintf("version %d", c.Accepted.ID.Version))
	}
	if !c.Held.Leader.IsZero() {
		line("leader", c.Held.Leader)
	}
	for _, m := range c.Held.Roster {
		line("member", fmt.Sprintf("%s  %s  %s", m.Address, m.Name, m.Shown()))
	}
	return t.Flush()
}
