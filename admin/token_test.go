// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/internal/adminclient"
)

const tokenText = "0123456789abcdef"

func tokenFile(t testing.TB, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func readToken(t testing.TB, path string) *admin.Token {
	t.Helper()
	token, err := admin.ReadToken(path)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestReadTokenRefuses(t *testing.T) {
	for _, c := range []struct {
		name, path, want string
	}{
		{"nothing", filepath.Join(t.TempDir(), "nothing"), "no such file"},
		{"folder", t.TempDir(), "not a regular file"},
		{"open to the group", tokenFile(t, tokenText, 0o640), "run this as the node's user"},
		{"open to all", tokenFile(t, tokenText, 0o604), "chmod 600"},
		{"short", tokenFile(t, " 0123456789abcde \n", 0o600), "at least 16; athena secret new "},
		{"long", tokenFile(t, strings.Repeat("a", 5000), 0o600), "the limit is 4096"},
		{"two lines", tokenFile(t, tokenText+"\n"+tokenText, 0o600), "without spaces"},
		{"no ASCII", tokenFile(t, tokenText+"é", 0o600), "ASCII"},
	} {
		if _, err := admin.ReadToken(c.path); !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
	}
}

// TestToken checks that all paths, even unknown ones, need the token, except health checks and the
// page.
func TestToken(t *testing.T) {
	token := readToken(t, tokenFile(t, "  "+tokenText+"\r\n", 0o600))
	addr := serve(t, "127.0.0.1:0", leading(t), admin.WithToken(token))
	for _, c := range []struct {
		path, shown string
		want        int
	}{
		{"/livez", "", 200},
		{"/readyz", "", 200},
		{"/readyz?leader", "Bearer wrong", 200},
		{"/v1/status", "", 401},
		{"/v1/events?follow=0", "", 401},
		{"/", "", 200},
		{"/ui/main.js", "", 200},
		{"/ui/../v1/status", "", 401},
		{"/ui/%2e%2e/v1/status", "", 401},
		{"/ui//v1/status", "", 401},
		{"/livez/", "", 401},
		{"/livez/../v1/status", "", 401},
		{"//livez", "", 401},
		{"/v1/status", "Bearer " + tokenText, 200},
		{"/v1/status", "bearer " + tokenText, 200},
		{"/v1/status", "Bearer " + tokenText + "0", 401},
		{"/v1/status", "Bearer " + tokenText[1:], 401},
		{"/v1/status", "Bearer", 401},
		{"/v1/status", "Bearer ", 401},
		{"/v1/status", tokenText, 401},
		{"/v1/status", "Basic " + tokenText, 401},
		{"/v1/events?follow=0", "Bearer " + tokenText, 200},
	} {
		resp := askWith(t, addr, c.path, "Authorization", c.shown)
		if challenge := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != c.want ||
			(c.want == 401) != strings.HasPrefix(challenge, "Bearer ") {
			t.Errorf("GET %s with %q: %d, WWW-Authenticate %q, want %d",
				c.path, c.shown, resp.StatusCode, challenge, c.want)
		}
	}
}

// askWith sends a GET request, with a header if its value is not empty.
func askWith(t *testing.T, addr, path, name, value string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if value != "" {
		req.Header.Set(name, value)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	resp.Body.Close()
	return resp
}

// TestTokenOfClient checks that the client sends its token, and that the error without one includes
// a remedy.
func TestTokenOfClient(t *testing.T) {
	token := readToken(t, tokenFile(t, tokenText, 0o600))
	addr := serve(t, "unix:"+filepath.Join(t.TempDir(), "admin"), leading(t), admin.WithToken(token))
	without, err := adminclient.New(addr)
	if err != nil {
		t.Fatal(err)
	}
	var told *adminclient.Error
	if _, err := without.Status(t.Context()); !errors.As(err, &told) || told.Status != 401 ||
		told.Code != adminapi.CodeUnauthorized || !strings.Contains(told.Text, "--admin-token-file") {
		t.Errorf("without the token: %v, want 401 and the remedy", err)
	}
	with, err := adminclient.New(addr, adminclient.WithToken(token.Current))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := with.Status(t.Context()); err != nil {
		t.Errorf("with the token: %v", err)
	}
}

// TestTokenChanges checks that the token changes with its file within a second, and becomes invalid
// when the file is removed or readable by others.
func TestTokenChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := tokenFile(t, tokenText, 0o600)
		token := readToken(t, path)
		s := serveInBubble(t, admin.WithToken(token))
		check := func(what, text string, want int) {
			t.Helper()
			r := s.get("/v1/status", "Authorization: Bearer "+text)
			if r.resp.StatusCode != want {
				t.Errorf("%s: %d, want %d", what, r.resp.StatusCode, want)
			}
			r.conn.Close()
		}
		change := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		const other = "another token of 32 characters.."
		changed := strings.ReplaceAll(other, " ", "-")
		check("at first", tokenText, 200)
		change(errors.Join(os.WriteFile(path, []byte(changed), 0o600),
			os.Chtimes(path, time.Time{}, time.Now())))
		check("the old one", tokenText, 401)
		check("the new one", changed, 200)
		change(os.Chmod(path, 0o644))
		check("open to others", changed, 401)
		change(os.Chmod(path, 0o600))
		check("closed again", changed, 200)
		change(os.Remove(path))
		check("gone", changed, 401)
		check("gone, and none shown", "", 401)
		change(os.WriteFile(path, []byte(tokenText), 0o600))
		check("there again", tokenText, 200)
		s.end()
	})
}

// TestOpenAddress checks that other machines need only the token and may send any Host.
func TestOpenAddress(t *testing.T) {
	token := admin.WithToken(readToken(t, tokenFile(t, tokenText, 0o600)))
	for _, addr := range []string{":7070", "0.0.0.0:7070", "example.org:7070"} {
		if err := adminapi.CheckListen(addr, true); err != nil {
			t.Errorf("CheckListen(%q) with a token: %v", addr, err)
		}
	}
	where := serve(t, "0.0.0.0:0", leading(t), token)
	_, port, err := net.SplitHostPort(where)
	if err != nil {
		t.Fatal(err)
	}
	for shown, want := range map[string]int{"": 401, "Bearer " + tokenText: 200} {
		req, err := http.NewRequest("GET", "http://127.0.0.1:"+port+"/v1/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "n1.example.org"
		req.Header.Set("Authorization", shown)
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("by another name with %q: %d, want %d", shown, resp.StatusCode, want)
		}
	}
	l, err := admin.Listen("0.0.0.0:0", token)
	if err != nil {
		t.Fatal(err)
	}
	err = admin.Serve(context.Background(), l, admin.New(leading(t), ""))
	if !errors.Is(err, adminapi.ErrAddress) {
		t.Errorf("Serve on %v without the token: %v, want ErrAddress", l.Addr(), err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener: %v, want it closed", err)
	}
}
