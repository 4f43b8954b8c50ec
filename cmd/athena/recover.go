// SPDX-License-Identifier: Apache-2.0

// athena recover and athena resize: change the data directory of a stopped node.

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
	"github.com/athena-go/athena/member"
)

// errUnconfirmed is returned if --confirm is missing or names another cluster.
var errUnconfirmed = errors.New("nothing was changed")

func newRecover() *cobra.Command {
	var dir, confirm string
	var above uint64
	cmd := &cobra.Command{
		Use:   "recover --data-dir DIR [--tokens-above N] [--confirm CLUSTER]",
		Short: "DANGEROUS: discard the state of a cluster that lost its majority",
		Long: "Use recover only if fewer than a majority of the data directories are left. Their\n" +
			"nodes report \"no leader can be elected: too many members lost their stores\" in athena\n" +
			"status and in the log, and wait for the lost directories. Restore those if you can: that\n" +
			"loses nothing.\n\n" +
			"Otherwise stop all nodes and run recover on EACH remaining data directory. Start those\n" +
			"nodes first, then the others, all without --join-only. They form a new cluster:\n\n" +
			"  - Members, records, locks and jobs are forgotten.\n" +
			"  - Fencing tokens continue above the highest one in any recovered directory.\n" +
			"    The lost directories may have known higher ones, which are then issued\n" +
			"    twice: read the highest token in your storage, and pass it in\n" +
			"    --tokens-above.\n" +
			"  - A node whose directory was not recovered cannot join the new cluster. If it\n" +
			"    is a running seed, the others cannot form one.\n" +
			"  - If a majority of the old cluster still runs, there are two clusters, each\n" +
			"    with a leader.\n\n" +
			"Without --confirm, recover prints the state and exits with 1. With --confirm, it renames\n" +
			"the state file within the directory. The node must be stopped.",
		Example: "  athena recover --data-dir /var/lib/athena\n" +
			"  athena recover --data-dir /var/lib/athena --confirm orders",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := settings.FromEnvironment(cmd.Flags(), os.Getenv, "data-dir"); err != nil {
				return err
			}
			if dir == "" {
				return cli.Usage(errors.New("--data-dir is required: the data directory of the node"))
			}
			return forgetStore(cmd.OutOrStdout(), dir, confirm, above)
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "data directory of the node (env ATHENA_DATA_DIR)")
	cmd.Flags().StringVar(&confirm, "confirm", "", "name of the cluster whose state to remove")
	cmd.Flags().Uint64Var(&above, "tokens-above", 0, "highest `TOKEN` of a leader that storage "+
		"has seen, or VERSION of a token of a lock or job")
	return cmd
}

// forgetStore prints the state in dir and, if confirm is the name of its cluster, sets the store
// aside so that the node starts as a new member of a cluster with higher tokens.
func forgetStore(w io.Writer, dir, confirm string, above uint64) (err error) {
	s, c, err := openStopped(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if c.IsUnused() && above <= c.Floor {
		return fmt.Errorf("%s: %w; this node can start as it is", dir, store.ErrUnused)
	}
	if err := showStore(w, c); err != nil {
		return err
	}
	switch confirm {
	case c.Origin.Cluster:
	case "":
		return fmt.Errorf("%w; read athena recover --help, then add --confirm %q to proceed",
			errUnconfirmed, c.Origin.Cluster)
	default:
		return cli.Usage(fmt.Errorf("--confirm %q: the store belongs to cluster %q; %w",
			confirm, c.Origin.Cluster, errUnconfirmed))
	}
	kept, err := s.Forget(above)
	if errors.Is(err, store.ErrTooHigh) {
		return cli.Usage(err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\nState removed; a copy is in %s.\nTokens of this node continue above "+
		"%d.\nNext: recover every other remaining data directory, start those nodes, then the others.\n",
		kept, max(above, c.HighestToken()))
	return err
}

// openStopped opens the store of a stopped node. It creates none.
func openStopped(dir string) (*store.File, store.Content, error) {
	if _, known, err := store.Peek(dir); err != nil {
		return nil, store.Content{}, err
	} else if !known {
		return nil, store.Content{}, fmt.Errorf("no state in %s: give the --data-dir of the node", dir)
	}
	s, err := store.OpenFile(dir)
	if errors.Is(err, store.ErrLocked) {
		return nil, store.Content{}, fmt.Errorf("stop the node first: %w", err)
	}
	if err != nil {
		return nil, store.Content{}, err
	}
	c, _, err := s.Load()
	if err != nil {
		return nil, store.Content{}, errors.Join(err, s.Close())
	}
	return s, c, nil
}

func newResize() *cobra.Command {
	var dir string
	var size int
	cmd := &cobra.Command{
		Use:   "resize --to N --data-dir DIR",
		Short: "change the size of a stopped cluster",
		Long: "resize changes the size that a data directory was made for. Members, records and\n" +
			"fencing tokens remain.\n\n" +
			"  1. Stop all nodes.\n" +
			"  2. Run resize on the data directory of each node.\n" +
			"  3. Start them with the new --size. Start new nodes with --join-only.\n\n" +
			"You can stop at any point, continue later, or undo it with the former size: nodes of\n" +
			"different sizes refuse each other, and only one size at a time has a majority.\n\n" +
			"A cluster can grow to twice its members minus one. Before it becomes smaller, stop the\n" +
			"members that shall go, and remove their seats with athena release. Empty the\n" +
			"directories of those: their nodes can only join as new ones.",
		Example: "  athena resize --to 5 --data-dir /var/lib/athena",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := settings.FromEnvironment(cmd.Flags(), os.Getenv, "data-dir"); err != nil {
				return err
			}
			if dir == "" || size < 1 || size > member.MaxMembers {
				return cli.Usage(fmt.Errorf("--data-dir is required, and --to must be 1 to %d",
					member.MaxMembers))
			}
			return resizeStore(cmd.OutOrStdout(), dir, size)
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "data directory of the node (env ATHENA_DATA_DIR)")
	cmd.Flags().IntVar(&size, "to", 0, "new size of the cluster")
	return cmd
}

// resizeStore changes the size that the store in dir was made for.
func resizeStore(w io.Writer, dir string, size int) (err error) {
	s, c, err := openStopped(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := c.CheckSize(size); err != nil {
		return fmt.Errorf("%s: %w; nothing was changed", dir, err)
	}
	before := c.Origin.Size
	if c.Origin.Size = size; before != size {
		if err := s.Save(c); err != nil {
			return err
		}
	}
	if err := showStore(w, c); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\nThe size was %d and is %d.\nNext: resize the directory of every other "+
		"member, then start all nodes with --size %d.\n", before, size, size)
	return err
}

// showStore prints the content of a store as a table.
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
	line("highest token", c.HighestToken())
	if !c.Held.Leader.IsZero() {
		line("leader", c.Held.Leader)
	}
	for _, m := range c.Held.Roster {
		line("member", fmt.Sprintf("%s  %s  %s", m.Address, m.Name, m.Shown()))
	}
	return t.Flush()
}
