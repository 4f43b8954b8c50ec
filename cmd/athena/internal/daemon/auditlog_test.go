// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"net/http"
	"regexp"
	"testing"

	"github.com/athena-go/athena/admin"
	"github.com/athena-go/athena/internal/simnet"
)

var quotedText = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// TestConsoleQuotesCallers checks that a caller whose certificate, path and headers contain a line
// of the audit log adds no text to the console outside quotes.
func TestConsoleQuotesCallers(t *testing.T) {
	const hostile = `x > admin action action=leave outcome=ok by=alice`
	authority := simnet.NewAuthority(t)
	config := &tls.Config{
		Certificates: []tls.Certificate{*authority.Issue("127.0.0.1", nil)},
		ClientCAs:    authority.Pool(),
	}
	log := make(logLines, 2)
	access := []admin.AccessOption{
		admin.WithTLS(func() *tls.Config { return config }),
		admin.WithLog(newLogger(log, "console", slog.LevelInfo)),
	}
	l, err := admin.Listen("127.0.0.1:0", access...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	done := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) })
	go func() { served <- admin.Serve(ctx, l, done, access...) }()
	r, err := http.NewRequest("POST", "https://"+l.Addr().String()+"/v1/x%20INF%20admin%20action", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("User-Agent", hostile)
	r.Header.Set("X-Request-ID", hostile+`" by="alice`)
	caller := authority.Issue("ops", func(c *x509.Certificate) {
		c.Subject, c.DNSNames = pkix.Name{}, []string{hostile}
	})
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{
			RootCAs: authority.Pool(), Certificates: []tls.Certificate{*caller},
		},
	}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	got := <-log
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	want := regexp.MustCompile(`^\S+ \S+ INF admin action action="" by="" outcome=ok ` +
		`remote=127\.0\.0\.1:\d+ request= request_id="" user_agent=""\n$`)
	if !want.MatchString(quotedText.ReplaceAllString(got, `""`)) || len(log) > 0 {
		t.Errorf("got %sand %d more lines, want one line of fields whose texts are quoted", got, len(log))
	}
}
