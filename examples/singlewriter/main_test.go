// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/athena-go/athena/test/programs"
)

// TestMain lets a test start this program as a process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "member" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestSQLite(t *testing.T) {
	testPlay(t)
	testSchema(t, filepath.Join(t.TempDir(), "sqlite"))
}

func TestPostgreSQL(t *testing.T) {
	url := startPostgreSQL(t)
	testPlay(t, url+"played")
	testSchema(t, url+"schema")
	testPausedTransaction(t, url+"schema")
}

// testPausedTransaction pauses a leader in a transaction that holds the lock of the fence. With the
// setting of docs/guide.md, the next leader does not wait for it without limit.
func testPausedTransaction(t *testing.T, url string) {
	t.Helper()
	const setting = "idle_in_transaction_session_timeout"
	if text, err := os.ReadFile("../../docs/guide.md"); !strings.Contains(string(text), setting) {
		t.Errorf("docs/guide.md does not name %s: %v", setting, err)
	}
	db, _, err := open(url + "&" + setting + "=500ms")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), raise, 10); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := begin(ctx, db, 11); err != nil {
		t.Errorf("begin while a former leader holds the lock: %v", err)
	}
	if err := tx.Commit(); err == nil {
		t.Error("the paused leader could commit")
	}
}

// testPlay runs the program with real processes and checks its output.
func testPlay(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := play(ctx, args, &out); err != nil {
		t.Fatalf("play: %v\n%s", err, &out)
	}
	said := out.String()
	refused := regexp.MustCompile(`is refused: .*token \d+ is stale: \d+ has written`)
	if n := len(refused.FindAllString(said, -1)); n != 1 {
		t.Errorf("%d writes are refused by their token, want 1", n)
	}
	// falls counts the tokens in a table that are lower than the previous one.
	falls := func(table string) (n int) {
		_, line, found := strings.Cut(said, "\n"+table+" ")
		line, _, _ = strings.Cut(line, "\n")
		last := 0
		tokens := regexp.MustCompile(`by token (\d+):`).FindAllStringSubmatch(line, -1)
		if !found || len(tokens) < 2 {
			t.Errorf("%s: written by %d leaders, want at least 2", table, len(tokens))
		}
		for _, m := range tokens {
			token, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			if token < last {
				n++
			}
			last = token
		}
		return n
	}
	if n := falls("unguarded"); n != 1 {
		t.Errorf("without a guard: a former leader wrote %d times, want 1", n)
	}
	if n := falls("guarded"); n != 0 {
		t.Errorf("with a guard: a former leader wrote %d times, want 0", n)
	}
	if t.Failed() {
		t.Log(said)
	}
}

// testSchema checks the guarantees of the schema one by one.
func testSchema(t *testing.T, url string) {
	t.Helper()
	db, schema, err := open(url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx := t.Context()
	if _, err := db.ExecContext(ctx, schema); err != nil {
		t.Fatal(err)
	}
	refuses := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "token 1 is stale") {
			t.Errorf("%s with token 1 after 2: %v, want a refusal that names both", what, err)
		}
	}
	for number, token := range []int64{1, 1, 2} {
		if err := write(ctx, db, "guarded", number, "n1", token); err != nil {
			t.Errorf("write %d with token %d: %v", number, token, err)
		}
	}
	refuses("write", write(ctx, db, "guarded", 7, "n1", 1))
	_, err = begin(ctx, db, 1)
	refuses("begin", err)
	if last, err := begin(ctx, db, 5); last != 2 || err != nil {
		t.Errorf("begin with token 5: %d, %v, want 2", last, err)
	}
	if err := write(ctx, db, "guarded", 3, "n2", 4); err == nil {
		t.Error("a write with token 4 after begin with 5 was taken")
	}
	for token, want := range map[int]bool{4: false, 5: true} {
		_, err := db.ExecContext(ctx, "UPDATE guarded SET number = 2, token = $1", token)
		if taken := err == nil; taken != want {
			t.Errorf("an update with token %d after begin with 5: %v, want it taken: %t", token, err, want)
		}
	}
	testPages(t, db)
	// If one write of a transaction is refused, the whole transaction is refused.
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	const insert = " (number, writer, token) VALUES (9, 'n1', 1)"
	if _, err := tx.ExecContext(ctx, "INSERT INTO unguarded"+insert); err != nil {
		t.Error(err)
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO guarded"+insert)
	refuses("transaction", err)
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
}

// testPages checks that the statements of the pages are those of begin, and that a former leader
// changes no row with them. The fence has token 5.
func testPages(t *testing.T, db *sql.DB) {
	t.Helper()
	for page, token := range map[string]string{"guide.md": "$1", "elections.md": "$ATHENA_TOKEN"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		_, statement, _ := strings.Cut(string(text), "```sql\n")
		statement, _, _ = strings.Cut(statement, "\n```")
		if statement = strings.ReplaceAll(statement, token, "$1"); statement+" RETURNING token" != raise {
			t.Errorf("docs/%s has %q, want %q without RETURNING", page, statement, raise)
		}
		for token, want := range map[int64]int64{4: 0, 5: 1} {
			result, err := db.ExecContext(t.Context(), statement, token)
			if err != nil {
				t.Fatalf("docs/%s: %v", page, err)
			}
			if n, err := result.RowsAffected(); n != want || err != nil {
				t.Errorf("docs/%s with token %d after 5: %d rows, %v, want %d", page, token, n, err, want)
			}
		}
	}
}

// startPostgreSQL starts a server that listens on a socket in a directory and has two empty
// databases. It returns the URL of a database without its name.
func startPostgreSQL(t *testing.T) string {
	t.Helper()
	dir, command := programs.NewPostgreSQL(t)
	data := filepath.Join(dir, "data")
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	run("pg_ctl", "-D", data, "-w", "-l", filepath.Join(dir, "log"),
		"-o", "-c listen_addresses= -c fsync=off -k "+dir, "start")
	t.Cleanup(func() { run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop") })
	url := "postgres://postgres@/?host=" + dir + "&database="
	db, _, err := open(url + "postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, name := range []string{"played", "schema"} {
		if _, err := db.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
			t.Fatal(err)
		}
	}
	return url
}
