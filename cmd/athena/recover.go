// SPDX-License-Identifier: Apache-2.0

// athena recover and athena resize: change the data directory of a stopped node.

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/internal/store"
	"github.com/athena-go/athena/internal/storekey"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/paxos"
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
			"Otherwise stop all nodes. Before you start any, run recover on EVERY node, also where\n" +
			"the directory is lost, with the same --tokens-above. Then start all without --join-only.\n" +
			"They form a new cluster:\n\n" +
			"  - Members, records, locks and jobs are forgotten.\n" +
			"  - Fencing tokens continue above --tokens-above and the highest one in any\n" +
			"    recovered directory. The lost directories may have known higher ones, which\n" +
			"    are then issued twice: pass the highest token in any of your storage, of\n" +
			"    leaders, jobs, locks and shards, or, if that is higher, the highest one that\n" +
			"    recover prints on any node. A fencing_token or ATHENA_TOKEN counts as its\n" +
			"    version: 7000000000017 as 7.\n" +
			"  - A lost or empty directory becomes one that holds only --tokens-above. Nodes\n" +
			"    without it can form a cluster whose tokens start over while the recovered\n" +
			"    ones are down; it then refuses those (\"join refused: version jump\").\n" +
			"  - A node whose old directory was not recovered cannot join the new cluster. If\n" +
			"    it is a running seed, the others cannot form one.\n" +
			"  - If a majority of the old cluster still runs, there are two clusters, each\n" +
			"    with a leader.\n\n" +
			"Without --confirm, recover prints the state and above which token it would continue,\n" +
			"and exits with 1. With --confirm, it renames the state file within the directory. The\n" +
			"node must be stopped. Run recover as the user of the node: a new directory belongs to\n" +
			"that user.",
		Example: "  athena recover --data-dir data\n" +
			"  athena recover --data-dir data --tokens-above 7000000000017 --confirm orders",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := settings.FromEnvironment(cmd.Flags(), os.Getenv, "data-dir"); err != nil {
				return err
			}
			if dir == "" {
				return cli.Usage(errors.New("--data-dir is required: the data directory of the node"))
			}
			version, err := versionAbove(above)
			if err != nil {
				return cli.Usage(err)
			}
			return forgetStore(cmd.OutOrStdout(), dir, confirm, version)
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "data directory of the node (env ATHENA_DATA_DIR)")
	cmd.Flags().StringVar(&confirm, "confirm", "",
		"name of the cluster whose state to remove, as printed at cluster")
	cmd.Flags().Uint64Var(&above, "tokens-above", 0, "highest `TOKEN` of a leader that storage "+
		"has seen, or fencing_token or VERSION of a job, lock or shard")
	return cmd
}

// versionAbove returns the version of the token given as --tokens-above: a version, or a token in
// the form of Token.Int64. No number is both, because MaxFloor is less than 10^12.
func versionAbove(given uint64) (uint64, error) {
	version := given
	if given > paxos.MaxFloor && given <= math.MaxInt64 {
		if t := member.TokenOf(int64(given)); t.Version > 0 {
			version = t.Version
		}
	}
	if version > paxos.MaxFloor {
		return 0, fmt.Errorf("--tokens-above %d: version %d is above the limit %d", given, version,
			paxos.MaxFloor)
	}
	return version, nil
}

// forgetStore prints the state in dir and, if confirm is the name of its cluster, sets the store
// aside so that the node starts as a new member of a cluster with higher tokens. If dir has no
// state and a token is given, it creates a store that holds only that token.
func forgetStore(w io.Writer, dir, confirm string, above uint64) (err error) {
	if _, known, err := store.Peek(dir); err == nil && !known {
		return prepareStore(w, dir, confirm, above)
	}
	s, c, err := openStopped(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if c.IsUnused() && above <= c.Floor {
		if c.Floor == 0 { // perhaps a node has started after its store was lost
			return fmt.Errorf("%s: %w; if the state of this node was lost, give --tokens-above with the "+
				"token that the other nodes have", dir, store.ErrUnused)
		}
		return fmt.Errorf("%s: %w; this node can start as it is: its tokens continue above %v",
			dir, store.ErrUnused, member.Token{Version: c.Floor})
	}
	if err := showStore(w, c); err != nil {
		return err
	}
	switch confirm {
	case c.Origin.Cluster:
	case "":
		if err := showPlan(w, max(above, c.HighestToken())); err != nil {
			return err
		}
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
	_, err = fmt.Fprintf(w, "\nState removed; a copy is in %s.\n", kept)
	return errors.Join(err, showNext(w, max(above, c.HighestToken())))
}

// prepareStore creates a store in dir, which has no state, that holds only the token above which
// the tokens of the new cluster continue. Without it, nodes that lost their directories could found
// the cluster at version 1 while the recovered ones are down.
func prepareStore(w io.Writer, dir, confirm string, above uint64) error {
	switch {
	case above == 0:
		return fmt.Errorf("no state in %s: give the --data-dir of the node or, if its state is lost, "+
			"--tokens-above with the token that the other nodes have", dir)
	case confirm == "":
		if err := showPlan(w, above); err != nil {
			return err
		}
		return fmt.Errorf("no state in %s; %w; read athena recover --help, then add --confirm CLUSTER "+
			"to create a store there that holds only --tokens-above", dir, errUnconfirmed)
	}
	if err := checkEmpty(dir); err != nil {
		return err
	}
	if err := saveToken(dir, confirm, above); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "No state was in %s: a store with only a token was created.\n", dir)
	return errors.Join(err, showNext(w, above))
}

// saveToken saves a state in dir that has only a cluster and a floor. The size and the address are
// those of the node that uses it first.
func saveToken(dir, cluster string, above uint64) (err error) {
	s, err := openUnlocked(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	c, known, err := s.Load()
	if err != nil {
		return err
	}
	if known {
		return fmt.Errorf("%s has a state now: %w", dir, errUnconfirmed)
	}
	c.Origin.Cluster, c.Floor = cluster, above
	c.Key = storekey.New()
	c.StoreID = c.Key.StoreID()
	return s.Save(c)
}

// storeFile matches the files that a store may leave when its state is lost.
var storeFile = regexp.MustCompile(
	`^(\.?athena\.state.+|athena\.lock|\.?reset\.key\d*|lost\+found)$`)

// checkEmpty returns an error if dir has a file that no store has, because a misspelled path would
// create a store among other files. A missing dir is empty.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if !storeFile.MatchString(e.Name()) {
			return fmt.Errorf("no state in %s, but %s: give the --data-dir of the node, or an empty "+
				"directory", dir, filepath.Join(dir, e.Name()))
		}
	}
	return err
}

// showPlan prints above which token this node would continue if the user confirmed.
func showPlan(w io.Writer, above uint64) error {
	_, err := fmt.Fprintf(w, "Tokens of this node would continue above %s.\n",
		member.Token{Version: above})
	return err
}

// showNext prints above which token this node continues, and what remains to be done.
func showNext(w io.Writer, above uint64) error {
	_, err := fmt.Fprintf(w, "Tokens of this node continue above %[1]s.\nNext: run recover with "+
		"--tokens-above %[1]s on every other node, also where the directory is lost. If one prints a "+
		"higher token, repeat it with that one on every node. Then start all nodes.\n",
		member.Token{Version: above})
	return err
}

// openUnlocked opens the store of a stopped node, or creates one.
func openUnlocked(dir string) (*store.File, error) {
	s, err := store.OpenFile(dir)
	if errors.Is(err, store.ErrLocked) {
		return nil, fmt.Errorf("stop the node first: %w", err)
	}
	return s, err
}

// openStopped opens the store of a stopped node. It creates none.
func openStopped(dir string) (*store.File, store.Content, error) {
	if _, known, err := store.Peek(dir); err != nil {
		return nil, store.Content{}, err
	} else if !known {
		return nil, store.Content{}, fmt.Errorf("no state in %s: give the --data-dir of the node", dir)
	}
	s, err := openUnlocked(dir)
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
			"  3. Start all nodes with the new --size, new ones also with --join-only.\n\n" +
			"You can stop at any point, continue later, or undo it with the former size: nodes of\n" +
			"different sizes refuse each other, and only one size at a time has a majority. Repeating\n" +
			"resize changes nothing, and a directory without a state needs none.\n\n" +
			"A cluster can grow to twice its members minus one. Before it becomes smaller, stop the\n" +
			"members that shall go with SIGTERM, and remove their seats with athena release. Delete\n" +
			"their directories only then: until then, their votes can save the cluster.",
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

// resizeStore changes the size that the store in dir was made for. Without a state there is nothing
// to change, and it succeeds, so that every node of a larger size can run it before it starts. A
// node whose directory was mistyped here refuses to start with the new size.
func resizeStore(w io.Writer, dir string, size int) (err error) {
	if _, known, err := store.Peek(dir); err == nil && !known {
		_, err = fmt.Fprintf(w, "No state in %s: nothing was changed. A new node needs no resize.\n", dir)
		return err
	}
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
	if !c.Origin.Address.IsZero() { // known since a node used the store
		line("size", c.Origin.Size)
		line("address", c.Origin.Address)
	}
	line("store id", c.StoreID)
	line("state held", fmt.Sprintf("version %d, revision %d", c.Held.Version, c.Held.Revision))
	if !c.Promised.IsZero() {
		line("promised", fmt.Sprintf("version %d", c.Promised.Version))
	}
	if !c.Accepted.IsZero() {
		line("accepted", fmt.Sprintf("version %d", c.Accepted.ID.Version))
	}
	line("highest token", member.Token{Version: c.HighestToken()})
	if !c.Held.Leader.IsZero() {
		line("leader", c.Held.Leader)
	}
	for _, m := range c.Held.Roster {
		line("member", fmt.Sprintf("%s  %s  %s", m.Address, m.Name, m.Shown()))
	}
	return t.Flush()
}
