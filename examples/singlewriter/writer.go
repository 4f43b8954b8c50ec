// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"database/sql"
	_ "embed" // the schemas
	"errors"
	"fmt"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"
)

//go:embed sqlite.sql
var sqliteSchema string

//go:embed postgres.sql
var postgresSchema string

// open opens a database. If url begins with postgres://, the database is PostgreSQL. Otherwise url
// is the path of an SQLite file.
func open(url string) (db *sql.DB, schema string, err error) {
	if strings.HasPrefix(url, "postgres://") {
		db, err = sql.Open("pgx", url)
		return db, postgresSchema, err
	}
	// A transaction takes the write lock first, and waits for it if necessary.
	db, err = sql.Open("sqlite", "file:"+url+
		"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)")
	return db, sqliteSchema, err
}

// raise raises the token of the fence. It changes no row if the fence has seen a greater one.
const raise = "UPDATE fence SET token = $1 WHERE token <= $1 RETURNING token"

// begin raises the token (member.Token.Int64) in the database, and then reads the last number.
// In the reverse order, a former leader could still write after the read.
func begin(ctx context.Context, db *sql.DB, token int64) (last int, err error) {
	err = db.QueryRowContext(ctx, raise, token).Scan(&token)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("token %d is stale: another writer has a higher one", token)
	} else if err != nil {
		return 0, err
	}
	err = db.QueryRowContext(ctx, "SELECT coalesce(max(number), 0) FROM guarded").Scan(&last)
	return last, err
}

// write adds a row to a table. The guarded table refuses the row if the database has seen a greater
// token.
func write(ctx context.Context, db *sql.DB, table string, n int, name string, token int64) error {
	_, err := db.ExecContext(ctx,
		"INSERT INTO "+table+" (number, writer, token) VALUES ($1, $2, $3)", n, name, token)
	return err
}
