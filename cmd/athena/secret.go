// SPDX-License-Identifier: Apache-2.0

// athena secret: make the secret that the nodes of a cluster share.

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
		Short: "make the secret that the nodes of a cluster share",
		Long: "secret is about what --secret-file names: who has it can be a member and read\n" +
			"everything, and who has not cannot connect. It is the same on every node.",
		Example: "  athena secret new secret",
		Args:    cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usage(errors.New("say what to do about the secret: new"))
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "new [FILE]",
		Short: "make a new secret, in a file that nobody else can read",
		Long: fmt.Sprintf("new makes %d random bytes, as one line of base64, and puts them into\n"+
			"FILE with mode 0600. A file that is there already is left as it is. Without FILE the secret\n"+
			"goes to standard output.", cluster.MinSecretBytes),
		Example: "  athena secret new /etc/athena/secret\n" +
			"  athena secret new | kubectl create secret generic athena \\\n" +
			"      --from-file=secret=/dev/stdin",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("unexpected argument %q: one FILE at most", args[1])
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

// makeSecret writes a new secret to a new file, and says what is next.
func makeSecret(w io.Writer, path string) error {
	if path == "" {
		return cli.Usage(errors.New("the name of the FILE is empty: name it, or leave it out"))
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s is there already, and may be the secret of a cluster: "+
			"use it, or name another file", path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: make the folder %s first", err, filepath.Dir(path))
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(f, "%s\n", cluster.NewSecret())
	// Before it is copied to other nodes it should be sure to stay.
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	fmt.Fprintf(w, "%s has a new secret. Copy it to every node, mode 0600, and start each with "+
		"--secret-file %s\n", path, cli.ShellWord(path))
	return nil
}
