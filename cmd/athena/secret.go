// SPDX-License-Identifier: Apache-2.0

// athena secret: create the secret that the nodes of a cluster share.

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
)

func newSecret() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "create the secret that the nodes of a cluster share",
		Long: "All nodes of a cluster have the same secret, in the file given by --secret-file. A\n" +
			"process with the secret can join the cluster and read all messages; a process without it\n" +
			"cannot connect.",
		Example: "  athena secret new secret",
		Args:    cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usage(errors.New("subcommand missing: must be new"))
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "new [FILE]",
		Short: "create a secret",
		Long: fmt.Sprintf("new writes %d random bytes, as one line of base64, to FILE with mode 0600.\n"+
			"It does not overwrite an existing file. Without FILE it prints the secret to standard output.",
			cluster.MinSecretBytes),
		Example: "  athena secret new /etc/athena/secret\n" +
			"  athena secret new | kubectl create secret generic athena \\\n" +
			"      --from-file=secret=/dev/stdin",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("unexpected argument %q: at most one FILE", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", cluster.NewSecret())
				return err
			}
			return makeSecret(cmd.ErrOrStderr(), args[0])
		},
	})
	return cmd
}

// makeSecret writes a new secret to a new file, and prints the next steps to w.
func makeSecret(w io.Writer, path string) error {
	if path == "" {
		return cli.Usage(errors.New("FILE is empty: give a path, or omit it"))
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s already exists and may be the secret of a cluster: use it, or choose "+
			"another path", path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: create the directory %s first", err, filepath.Dir(path))
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(f, "%s\n", cluster.NewSecret())
	// The file must survive a crash, since the secret may be copied to other nodes right away.
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	fmt.Fprintf(w, "wrote a new secret to %s; copy it to every node with mode 0600, and start each "+
		"with --admin-token-file (a token) or --secret-file %s\n", path, cli.ShellWord(path))
	return nil
}
