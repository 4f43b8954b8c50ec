// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"

	"github.com/athena-go/athena/internal/leasestore"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/record"
)

// Config configures a Store.
type Config = leasestore.Config

// Store is the table of records as one member sees it. It has a Close method.
type Store = leasestore.Store

const (
	// pollInterval is how often a member reads the table if no notification arrives.
	pollInterval = time.Second
	// readTimeout limits reads in the background if the server no longer answers.
	readTimeout = 5 * time.Second
)

var errReadOnly = errors.New("the server is a standby, or the row without a name was deleted")

// tableName matches names of tables that are also valid names of channels.
var tableName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,23}(\.[a-z_][a-z0-9_]{0,23})?$`)

// Open makes this process one of the members that use a table, which it creates if necessary. The
// name consists of up to 24 lower-case letters, digits and underscores. A schema and a dot may
// precede the name. Open blocks until the other members see this member, or until ctx is done. The
// pool must connect to the primary and outlive the Store.
func Open(
	ctx context.Context, pool *pgxpool.Pool, table string, cfg Config,
) (*Store, error) {
	if !tableName.MatchString(table) {
		return nil, fmt.Errorf("postgres: invalid table name %.100q", table)
	}
	b := newBackend(pool, table)
	if err := b.createTable(ctx); err != nil {
		return nil, err
	}
	return leasestore.Open(ctx, b, cfg)
}

// backend implements leasestore.Backend. A row of the table is an entry. The row without a name
// contains the revision of the last write. Each write first locks this row, so that writes to the
// table run one after the other.
type backend struct {
	pool                                   *pgxpool.Pool
	channel                                string // for notifications of changes
	create, lock, write, read, all, listen string
}

func newBackend(pool *pgxpool.Pool, table string) *backend {
	quoted := pgx.Identifier(strings.Split(table, ".")).Sanitize()
	channel := "athena/" + table
	sql := strings.NewReplacer("ENTRIES", quoted).Replace
	return &backend{
		pool: pool, channel: channel,
		create: sql(`DO $$ BEGIN
	IF pg_is_in_recovery() THEN
		RAISE 'the server is a standby; connect to the primary';
	ELSIF current_setting('transaction_read_only')::bool THEN
		RAISE 'default_transaction_read_only is on';
	ELSIF NOT current_setting('fsync')::bool
			AND current_setting('synchronous_standby_names') = '' THEN
		RAISE 'fsync is off: the server would lose commits if its machine crashed';
	END IF;
	IF to_regclass('ENTRIES') IS NULL THEN
		PERFORM pg_advisory_xact_lock(hashtext('ENTRIES'));
		CREATE TABLE IF NOT EXISTS ENTRIES (
			name text COLLATE "C" PRIMARY KEY, value bytea NOT NULL, revision bigint NOT NULL);
		INSERT INTO ENTRIES VALUES ('', '', 0) ON CONFLICT DO NOTHING;
	END IF;
END $$`),
		lock: sql(`UPDATE ENTRIES SET revision = revision + 1 WHERE name = '' RETURNING revision`),
		// This statement begins after the lock is held, so it sees all earlier writes.
		write: sql(`WITH change AS (
	SELECT * FROM unnest($1::text[], $2::int[], $3::bigint[], $4::bytea[])
		AS c (name, kind, revision, value)
), met AS (
	SELECT EXISTS (SELECT FROM ENTRIES WHERE name = '') AND NOT EXISTS (
		SELECT FROM change c LEFT JOIN ENTRIES e USING (name) WHERE CASE c.kind
			WHEN $5 THEN e.name IS NULL ELSE coalesce(e.revision, 0) <> c.revision END
	) AS all_met
), deleted AS (
	DELETE FROM ENTRIES e USING change c, met WHERE all_met AND c.kind = $6 AND e.name = c.name
), put AS (
	INSERT INTO ENTRIES SELECT c.name, c.value, last.revision FROM change c, met, ENTRIES last
	WHERE all_met AND c.kind = $7 AND last.name = ''
	ON CONFLICT (name) DO UPDATE SET value = excluded.value, revision = excluded.revision
)
SELECT all_met, CASE WHEN all_met THEN pg_notify($8, '') END FROM met`),
		read: sql(`SELECT name, value, revision, pg_is_in_recovery() FROM ENTRIES
	WHERE name = '' OR name = ANY ($1)`),
		all:    sql(`SELECT name, value, revision, pg_is_in_recovery() FROM ENTRIES`),
		listen: "LISTEN " + pgx.Identifier{channel}.Sanitize(),
	}
}

func (b *backend) createTable(ctx context.Context) error {
	_, err := b.pool.Exec(ctx, b.create)
	return b.convertErr(err, record.ErrNoQuorum)
}

func (b *backend) Read(ctx context.Context, names ...string) ([]leasestore.Entry, error) {
	rows, err := b.pool.Query(ctx, b.read, names)
	return b.collect(rows, err)
}

// Write sends the whole transaction in one message.
func (b *backend) Write(ctx context.Context, changes ...leasestore.Change) (uint64, error) {
	var names []string
	var kinds []int32
	var revisions []int64
	var values [][]byte
	for _, c := range changes {
		names, kinds = append(names, c.Name), append(kinds, int32(c.Kind))
		revisions, values = append(revisions, int64(c.Revision)), append(values, c.Value)
	}
	var revision int64
	var met bool
	var batch pgx.Batch
	// With a stricter isolation, concurrent writes would fail instead of waiting.
	batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	// If the server lost a commit in a crash, its revision would be used twice.
	batch.Queue("SET LOCAL synchronous_commit = on")
	batch.Queue(b.lock).QueryRow(func(row pgx.Row) error { return row.Scan(&revision) })
	batch.Queue(b.write, names, kinds, revisions, values, int32(leasestore.Exists),
		int32(leasestore.Delete), int32(leasestore.Put), b.channel,
	).QueryRow(func(row pgx.Row) error { return row.Scan(&met, nil) })
	batch.Queue("COMMIT")
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return 0, b.convertErr(err, record.ErrNoQuorum)
	}
	defer conn.Release()
	if err := conn.SendBatch(ctx, &batch).Close(); err != nil {
		return 0, b.convertErr(err, record.ErrUnknownOutcome)
	}
	if !met {
		return 0, fmt.Errorf("postgres: %w", record.ErrConflict)
	}
	return uint64(revision), nil
}

// Follow reads all entries after each notification.
func (b *backend) Follow(ctx context.Context, see func(bool, []leasestore.Entry)) error {
	pooled, err := b.pool.Acquire(ctx)
	if err != nil {
		return b.convertErr(err, record.ErrNoQuorum)
	}
	conn := pooled.Hijack() // another user of the connection would receive the notifications
	defer func() {
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer stop()
		_ = conn.Close(end)
	}()
	if _, err := conn.Exec(ctx, b.listen); err != nil {
		return b.convertErr(err, record.ErrNoQuorum)
	}
	for {
		entries, err := b.readAll(ctx, conn)
		if err != nil {
			return err
		}
		see(true, entries)
		wait, stop := context.WithTimeout(ctx, pollInterval)
		_, err = conn.WaitForNotification(wait)
		stop()
		for err == nil { // one read serves all notifications that have arrived
			_, err = conn.WaitForNotification(wait)
		}
		if ctx.Err() != nil || conn.IsClosed() {
			return b.convertErr(errors.Join(context.Cause(ctx), err), record.ErrNoQuorum)
		}
	}
}

func (b *backend) readAll(ctx context.Context, conn *pgx.Conn) ([]leasestore.Entry, error) {
	ctx, stop := context.WithTimeout(ctx, readTimeout)
	defer stop()
	rows, err := conn.Query(ctx, b.all)
	return b.collect(rows, err)
}

// collect returns the entries among rows.
func (b *backend) collect(rows pgx.Rows, err error) (found []leasestore.Entry, _ error) {
	if err != nil {
		return nil, b.convertErr(err, record.ErrNoQuorum)
	}
	primary := false
	var e leasestore.Entry
	var standby bool
	_, err = pgx.ForEachRow(rows, []any{&e.Name, &e.Value, &e.Revision, &standby}, func() error {
		if e.Name == "" {
			primary = !standby
		} else {
			found = append(found, e)
		}
		return nil
	})
	if err == nil && !primary {
		err = errReadOnly
	}
	if err != nil {
		return nil, b.convertErr(err, record.ErrNoQuorum)
	}
	return found, nil
}

// convertErr converts an error of the client. Unless the server refused the request, the result
// also wraps a more general error.
func (b *backend) convertErr(err, otherwise error) error {
	if err == nil {
		return nil
	}
	var answer *pgconn.PgError
	hasAnswer := errors.As(err, &answer)
	// After an ERROR the server has rolled back. A FATAL error may occur after the commit. Poolers
	// report a lost server with a code of class 08, some of them as an ERROR.
	isRolledBack := hasAnswer && answer.SeverityUnlocalized == "ERROR" &&
		!strings.HasPrefix(answer.Code, "08")
	mayRefuse := isRolledBack || hasAnswer && !errors.Is(otherwise, record.ErrUnknownOutcome)
	switch {
	case errors.Is(err, pgx.ErrNoRows) || mayRefuse && isRefusal(answer.Code):
		return fmt.Errorf("postgres: %w", err)
	case errors.Is(err, puddle.ErrClosedPool):
		otherwise = leader.ErrClosed
	case isRolledBack || pgconn.SafeToRetry(err):
		otherwise = record.ErrNoQuorum
	}
	return fmt.Errorf("postgres: %w: %w", otherwise, err)
}

// isRefusal reports whether retries fail until an operator intervenes.
func isRefusal(code string) bool {
	switch code[:min(2, len(code))] {
	// data, constraints, authorization, names, permissions, and RAISE
	case "22", "23", "28", "3D", "3F", "42", "P0":
		return true
	}
	return false
}
