// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command singlewriter lets one of three processes write to a database that refuses every former
// leader. It shows a danger that no election can prevent, and its remedy. Run it with
//
//	go run -C examples/singlewriter .
//	go run -C examples/singlewriter . postgres://USER:PASSWORD@HOST/EMPTY-DATABASE
//
// The first form uses an SQLite file. The leader is paused with SIGSTOP after it has checked its
// lease and before it writes. Another process leads and writes. Then the first process resumes, and
// its write arrives late. A table without a guard accepts the write; a table with a guard refuses
// it. The code to copy is in writer.go and in the schema of your database. The example is a
// separate module because of the drivers.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/leader"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := play
	if len(os.Args) > 1 && os.Args[1] == "member" {
		run = member
	}
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// member runs one process. Its arguments are member NAME ADDRESS DATA-DIR DATABASE SEED...
func member(ctx context.Context, args []string, out io.Writer) error {
	name, addr, dir, url, seeds := args[1], args[2], args[3], args[4], args[5:]
	db, _, err := open(url)
	if err != nil {
		return err
	}
	defer db.Close()
	// Without a DataDir, tokens could start over.
	cfg := cluster.Config{Name: name, Addr: addr, Seeds: seeds, Size: len(seeds), DataDir: dir}
	node, err := cluster.Start(ctx, cfg, cluster.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	_ = node.WhileLeader(ctx, func(ctx context.Context, term leader.Term) error {
		err := lead(ctx, term, db, name, out)
		fmt.Fprintln(out, "no longer leads:", err)
		return err
	})
	return node.Leave(context.WithoutCancel(ctx))
}

// thinkTime is the time that a writer takes between checking its lease and writing.
const thinkTime = 500 * time.Millisecond

// lead writes consecutive numbers while this process leads.
func lead(ctx context.Context, term leader.Term, db *sql.DB, name string, out io.Writer) error {
	token, err := term.Token().Int64()
	if err != nil {
		return err
	}
	last, err := begin(ctx, db, token)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "leads with token %d and continues after %d\n", token, last)
	for number := last + 1; ctx.Err() == nil && term.Valid(); number++ {
		fmt.Fprintln(out, "has the lease and is about to write", number)
		// Here a program may compute, collect garbage or wait for a disk, and its machine may be paused.
		time.Sleep(thinkTime)
		// A program should pass ctx, which ends with the lease. This program does not. So its write
		// arrives late, like a request that had already been sent.
		late := context.WithoutCancel(ctx)
		if err := write(late, db, "unguarded", number, name, token); err != nil {
			return err
		}
		if err := write(late, db, "guarded", number, name, token); err != nil {
			fmt.Fprintf(out, "is refused: %v; the unguarded table accepted %d\n", err, number)
			return context.Cause(ctx)
		}
		fmt.Fprintln(out, "wrote", number)
	}
	return context.Cause(ctx)
}

// play starts the processes, pauses the leader, and prints the tables.
func play(ctx context.Context, args []string, out io.Writer) error {
	dir, err := os.MkdirTemp("", "athena-singlewriter-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	url := filepath.Join(dir, "sqlite")
	if len(args) > 0 {
		url = args[0]
	}
	db, schema, err := open(url)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("the database must be empty: %w", err)
	}
	p, err := startProcesses(ctx, dir, url, out)
	if err != nil {
		return err
	}
	err = p.pauseLeader()
	p.end()
	if err != nil {
		return err
	}
	for _, table := range []string{"unguarded", "guarded"} {
		if err := show(ctx, db, table, out); err != nil {
			return err
		}
	}
	return nil
}

// pauseLeader pauses the leader just before a write, and resumes it after the next leader has
// written.
func (p *processes) pauseLeader() error {
	first, err := p.await("", "wrote 3")
	if err != nil {
		return err
	}
	if _, err = p.await(first, "has the lease and is about to write"); err != nil {
		return err
	}
	if err := p.signal(first, syscall.SIGSTOP, "is paused there: SIGSTOP"); err != nil {
		return err
	}
	next, err := p.await("", "leads with token")
	if err != nil {
		return err
	}
	for range 3 {
		if _, err := p.await(next, "wrote"); err != nil {
			return err
		}
	}
	if err := p.signal(first, syscall.SIGCONT, "is resumed: SIGCONT"); err != nil {
		return err
	}
	if _, err := p.await(first, "is refused"); err != nil {
		return err
	}
	_, err = p.await(next, "wrote")
	return err
}

// show prints the rows of a table in the order of their writes.
func show(ctx context.Context, db *sql.DB, table string, out io.Writer) error {
	rows, err := db.QueryContext(ctx, "SELECT number, token FROM "+table+" ORDER BY seq")
	if err != nil {
		return err
	}
	defer rows.Close()
	var line strings.Builder
	for last := 0; rows.Next(); {
		var number, token int
		if err := rows.Scan(&number, &token); err != nil {
			return err
		}
		if token != last {
			fmt.Fprintf(&line, "  by token %d:", token)
		}
		last = token
		fmt.Fprint(&line, " ", number)
	}
	fmt.Fprintf(out, "%-9s %s\n", table, &line)
	return rows.Err()
}
