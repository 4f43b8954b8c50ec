// SPDX-License-Identifier: Apache-2.0

// Package ask implements the verbs that send one request to the admin API of a node.
package ask

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
	"github.com/athena-go/athena/cmd/athena/internal/settings"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
	"github.com/athena-go/athena/internal/tlsfiles"
)

// DefaultAdmin is the default of --admin, both for the demo and for verbs that query a node.
const DefaultAdmin = "127.0.0.1:7070"

// Question holds the flags shared by verbs that query a node.
type Question struct {
	admin, tokenFile, ca, cert, key, Output string
}

// Reply is the response of a node.
type Reply struct {
	Answer any             // printed by -o json
	Table  func(io.Writer) // prints the answer by -o table
	Note   string          // printed to standard error before the answer, if not empty
	Failed error           // not nil if the node reported that the request failed
}

// Verb describes a verb that sends one request to a node.
type Verb struct {
	Use, Short, Long, Example string

	Args cobra.PositionalArgs
	Ask  func(ctx context.Context, c *adminclient.Client, args []string) (Reply, error)
}

// NewCommand returns the command of v, with the flags of a Question.
func NewCommand(v Verb) *cobra.Command {
	var q Question
	cmd := &cobra.Command{
		Use:   v.Use,
		Short: v.Short,
		Long:  v.Long,
		Example: cmp.Or(v.Example, fmt.Sprintf("  athena %[1]s --admin 127.0.0.1:7071\n"+
			"  ATHENA_ADMIN=unix:/run/athena/admin athena %[1]s -o json", v.Use)),
		Args: v.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := q.Client(cmd)
			if err != nil {
				return err
			}
			r, err := v.Ask(cmd.Context(), c, args)
			if err != nil {
				return q.Explain(err)
			}
			return q.print(cmd, r)
		},
	}
	q.Define(cmd.Flags())
	return cmd
}

// Define adds the flags of q to f.
func (q *Question) Define(f *pflag.FlagSet) {
	f.StringVar(&q.admin, "admin", DefaultAdmin,
		"admin API of the node: host:port or unix:PATH, or of several with commas between; the "+
			"first that can be reached is asked (env ATHENA_ADMIN)")
	f.StringVar(&q.tokenFile, "admin-token-file", "",
		"file with the token for the admin API (env ATHENA_ADMIN_TOKEN_FILE)")
	f.StringVar(&q.ca, "admin-ca", "",
		"PEM file with the CA certificates of the admin API; uses TLS (env ATHENA_ADMIN_CA)")
	f.StringVar(&q.cert, "admin-client-cert", "",
		"PEM file with a client certificate for the admin API (env ATHENA_ADMIN_CLIENT_CERT)")
	f.StringVar(&q.key, "admin-client-key", "",
		"PEM file with the private key of --admin-client-cert (env ATHENA_ADMIN_CLIENT_KEY)")
	f.StringVarP(&q.Output, "output", "o", "table", "table or json")
}

// Client returns a client of the admin API selected by the flags and variables.
func (q *Question) Client(
	cmd *cobra.Command, opts ...adminclient.Option,
) (*adminclient.Client, error) {
	if err := cli.CheckOutput(q.Output); err != nil {
		return nil, err
	}
	settings.WarnMisspelled(cmd.ErrOrStderr(), os.Environ())
	err := settings.FromEnvironment(cmd.Flags(), os.Getenv, settings.ClientFlags...)
	if err != nil {
		return nil, err
	}
	if q.tokenFile != "" {
		token, err := admin.ReadToken(q.tokenFile)
		if errors.Is(err, fs.ErrNotExist) {
			path, _ := filepath.Abs(q.tokenFile) // an empty path is no worse than the error of Abs
			err = fmt.Errorf("%s: no such file: copy it from a node", path)
		}
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("%s: %w", settings.Given(cmd.Flags(), "admin-token-file"), err))
		}
		opts = append(opts, adminclient.WithToken(token.Current))
	}
	if secured, err := q.tlsConfig(cmd.Flags()); err != nil {
		return nil, cli.Usage(err)
	} else if secured != nil {
		opts = append(opts, adminclient.WithTLS(secured))
	}
	c, err := adminclient.New(q.admin, opts...)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("%s: %w", settings.Given(cmd.Flags(), "admin"), err))
	}
	return c, nil
}

// tlsConfig returns the configuration for TLS, or nil for plain HTTP.
func (q *Question) tlsConfig(f *pflag.FlagSet) (*tls.Config, error) {
	switch {
	case q.ca == "" && (q.cert != "" || q.key != ""):
		return nil, errors.New("a client certificate needs TLS: set --admin-ca")
	case (q.cert == "") != (q.key == ""):
		return nil, errors.New("set both --admin-client-cert and --admin-client-key, or neither")
	case q.ca == "":
		return nil, nil
	case strings.HasPrefix(q.admin, adminapi.UnixPrefix):
		return nil, fmt.Errorf("%s: a Unix socket does not use TLS: leave it out",
			settings.Given(f, "admin-ca"))
	}
	roots, err := tlsfiles.ReadAuthorities(q.ca)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", settings.Given(f, "admin-ca"), err)
	}
	c := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
	if q.cert != "" {
		pair, err := tlsfiles.ReadPair(q.cert, q.key, time.Now())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", settings.Given(f, "admin-client-cert"), err)
		}
		c.Certificates = []tls.Certificate{*pair}
	}
	return c, nil
}

// Explain adds to an error of a client whether a node, another server or nothing responded.
func (q *Question) Explain(err error) error {
	var response *adminclient.Error
	var lost *adminclient.ConnectionError
	var usage cli.UsageError
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case errors.As(err, &usage):
		return err
	case errors.Is(err, adminclient.ErrNeedsTLS), errors.Is(err, adminclient.ErrNoTLS), untrusted:
		return fmt.Errorf("%s: %w", q.admin, err)
	case errors.As(err, &response) && response.Code == "":
		return fmt.Errorf("the server at %s is not an Athena node: %w; set --admin or ATHENA_ADMIN to "+
			"the --admin address of a node", q.admin, err)
	case errors.As(err, &response):
		return fmt.Errorf("the node at %s responded: %w", q.admin, err)
	case errors.As(err, &lost):
		own, _, several := strings.Cut(q.admin, ",")
		if several {
			return fmt.Errorf("%w; start one of these nodes", err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%w; its process is stopped or overloaded, or a firewall drops packets; set "+
				"--admin or ATHENA_ADMIN to the address of another", err)
		}
		return fmt.Errorf("%w; start a node with --admin %s, or set --admin or ATHENA_ADMIN to the "+
			"address of another", err, own)
	default:
		return err
	}
}

// print prints r in the format of --output.
func (q *Question) print(cmd *cobra.Command, r Reply) error {
	if r.Note != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "athena: %s\n", r.Note)
	}
	if q.Output == "json" {
		return errors.Join(cli.PrintJSON(cmd.OutOrStdout(), r.Answer), r.Failed)
	}
	t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	r.Table(t)
	return errors.Join(t.Flush(), r.Failed)
}
