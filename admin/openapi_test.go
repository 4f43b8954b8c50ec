// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/internal/adminapi"
	"github.com/athena-go/athena/leader"
	"github.com/athena-go/athena/member"
	"github.com/athena-go/athena/receiver"
	"github.com/athena-go/athena/record"
)

// apiDocument holds the parts of openapi.json that the tests use.
type apiDocument struct {
	OpenAPI    string                          `json:"openapi"`
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	RequestBody *content           `json:"requestBody"`
	Responses   map[string]content `json:"responses"`
}

type content struct {
	Codes   []string `json:"x-codes"`
	Content map[string]struct {
		Schema  schema            `json:"schema"`
		Example any               `json:"example"`
		Data    map[string]schema `json:"x-data"`
	} `json:"content"`
}

// schema is the subset of JSON Schema that the document uses.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"`
	Enum       []string          `json:"enum"`
	Format     string            `json:"format"`
	Required   []string          `json:"required"`
	Properties map[string]schema `json:"properties"`
	Additional any               `json:"additionalProperties"`
	Items      *schema           `json:"items"`
	OneOf      []schema          `json:"oneOf"`
}

func readDocument(t *testing.T) (d apiDocument) {
	t.Helper()
	if err := json.Unmarshal(openAPI, &d); err != nil || !strings.HasPrefix(d.OpenAPI, "3.1") {
		t.Fatalf("openapi.json: %v, version %q", err, d.OpenAPI)
	}
	return d
}

// typesOf maps the names of schemas to the types of the API.
func typesOf() map[string]reflect.Type {
	all := map[string]reflect.Type{}
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			visit(t.Elem())
		case reflect.Struct:
			if t.PkgPath() != reflect.TypeFor[adminapi.Status]().PkgPath() || all[t.Name()] != nil {
				return
			}
			all[t.Name()] = t
			for _, f := range reflect.VisibleFields(t) {
				visit(f.Type)
			}
		}
	}
	for _, value := range []any{adminapi.Status{}, adminapi.Leader{}, adminapi.Entry{},
		adminapi.Record{}, adminapi.MemberChange{}, adminapi.LeaderChange{},
		adminapi.Action{}, adminapi.Lagged{},
		adminapi.SendRequest{}, adminapi.Sent{}, adminapi.TransferRequest{},
		adminapi.DrainRequest{}, adminapi.PreferRequest{}, adminapi.SeatsRequest{},
		adminapi.LabelRequest{}, adminapi.Labels{},
		adminapi.HandedOver{}, adminapi.Done{}, adminapi.Job{}, adminapi.JobLeader{},
		adminapi.CandidateRequest{}, adminapi.GroupRequest{},
		adminapi.LockRequest{}, adminapi.Waiting{}, adminapi.Grant{},
		adminapi.Trust{}} {
		visit(reflect.TypeOf(value))
	}
	all["Error"] = reflect.TypeFor[adminapi.ErrorBody]()
	return all
}

// TestDocumentHasEveryField checks that the schemas have exactly the fields of the types, with the
// right kind and required list.
func TestDocumentHasEveryField(t *testing.T) {
	schemas, types := readDocument(t).Components.Schemas, typesOf()
	for name := range schemas {
		if types[name] == nil {
			t.Errorf("schema %s has no type", name)
		}
	}
	for name, typ := range types {
		s, ok := schemas[name]
		if !ok {
			t.Errorf("type %s has no schema", name)
			continue
		}
		required := []string{}
		want := map[string]string{}
		for _, f := range reflect.VisibleFields(typ) {
			tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			want[tag] = kindOf(f.Type)
			if options == "" {
				required = append(required, tag)
			}
		}
		for _, tag := range addedTexts(t, typ, want) {
			want[tag] = "string"
			required = append(required, tag)
		}
		got := map[string]string{}
		for property, p := range s.Properties {
			got[property] = p.kind()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -type +schema:\n%s", name, diff)
		}
		slices.Sort(required)
		slices.Sort(s.Required)
		if diff := cmp.Diff(required, s.Required); diff != "" || s.Additional != false {
			t.Errorf("%s: required: -type +schema:\n%s; additionalProperties %v", name, diff, s.Additional)
		}
	}
}

// addedTexts returns the fields that the MarshalJSON method of a type adds.
func addedTexts(t *testing.T, typ reflect.Type, own map[string]string) (added []string) {
	t.Helper()
	text, err := json.Marshal(reflect.Zero(typ).Interface())
	var fields map[string]any
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		t.Fatalf("%v: %v", typ, err)
	}
	for tag := range fields {
		if _, known := own[tag]; !known {
			added = append(added, tag)
		}
	}
	return added
}

// kindOf returns the JSON type of a Go type.
func kindOf(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return "null or " + kindOf(t.Elem())
	case t == reflect.TypeFor[json.RawMessage]():
		return "anything"
	case t == reflect.TypeFor[adminapi.Preference]():
		return "integer or string"
	case t == reflect.TypeFor[time.Time]():
		return "time"
	case t.Implements(reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()),
		t == reflect.TypeFor[[]byte](): // in base64
		return "string"
	}
	switch t.Kind() {
	case reflect.Slice:
		return "list of " + kindOf(t.Elem())
	case reflect.Map:
		return "map of " + kindOf(t.Elem())
	case reflect.Struct:
		return t.Name()
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Float64:
		return "number"
	case reflect.Int, reflect.Uint64:
		return "integer"
	default:
		panic(fmt.Sprintf("%v in an answer", t))
	}
}

// kind returns the JSON type of the schema.
func (s schema) kind() string {
	switch {
	case s.Ref != "":
		return filepath.Base(s.Ref)
	case len(s.OneOf) == 2 && s.OneOf[1].Type == "null":
		return "null or " + s.OneOf[0].kind()
	case len(s.OneOf) == 2:
		return s.OneOf[0].kind() + " or " + s.OneOf[1].kind()
	case s.Type == nil:
		return "anything"
	case s.Items != nil:
		return "list of " + s.Items.kind()
	case s.Format == "date-time" && s.Type == "string":
		return "time"
	case s.Format == "date-time":
		return "null or time"
	case s.Type == "object":
		var of schema
		text, _ := json.Marshal(s.Additional)
		_ = json.Unmarshal(text, &of)
		return "map of " + of.kind()
	default:
		return fmt.Sprint(s.Type)
	}
}

// fits returns why a value does not match the schema, or "" if it matches.
func (d apiDocument) fits(s schema, v any) string {
	if s.Ref != "" {
		s = d.Components.Schemas[filepath.Base(s.Ref)]
	}
	if len(s.OneOf) > 0 {
		if v == nil {
			return ""
		}
		if s.OneOf[1].Type != "null" && d.fits(s.OneOf[1], v) == "" {
			return ""
		}
		return d.fits(s.OneOf[0], v)
	}
	switch v := v.(type) {
	case map[string]any:
		return d.fitsObject(s, v)
	case []any:
		if s.Items == nil {
			return fmt.Sprintf("a list where %s is wanted", s.kind())
		}
		for i, item := range v {
			if wrong := d.fits(*s.Items, item); wrong != "" {
				return fmt.Sprintf("[%d]: %s", i, wrong)
			}
		}
		return ""
	}
	kind, text := s.kind(), fmt.Sprint(v)
	var ok bool
	switch v := v.(type) {
	case nil:
		ok = strings.HasPrefix(kind, "null or ")
	case bool:
		ok = kind == "boolean"
	case float64:
		ok = kind == "number" || kind == "integer" && v == float64(int64(v))
	case string:
		_, err := time.Parse(time.RFC3339Nano, v)
		ok = kind == "string" || strings.HasSuffix(kind, "time") && err == nil
		ok = ok && (s.Enum == nil || slices.Contains(s.Enum, v))
	}
	if !ok && kind != "anything" {
		return fmt.Sprintf("%.50s where %s %q is wanted", text, kind, s.Enum)
	}
	return ""
}

func (d apiDocument) fitsObject(s schema, v map[string]any) string {
	if s.Type != "object" && s.Type != nil {
		return fmt.Sprintf("an object where %s is wanted", s.kind())
	}
	for _, name := range s.Required {
		if _, there := v[name]; !there {
			return name + " is missing"
		}
	}
	for name, value := range v {
		p, known := s.Properties[name]
		if more, ok := s.Additional.(map[string]any); ok && !known {
			text, _ := json.Marshal(more)
			_ = json.Unmarshal(text, &p)
			known = true
		}
		if !known && s.Additional == false {
			return name + " is not in the schema"
		}
		if wrong := d.fits(p, value); known && wrong != "" {
			return name + ": " + wrong
		}
	}
	return ""
}

// TestDocumentExamples checks that the examples match their schemas.
func TestDocumentExamples(t *testing.T) {
	d := readDocument(t)
	for path, methods := range d.Paths {
		for method, op := range methods {
			answers := maps.Clone(op.Responses)
			if op.RequestBody != nil {
				answers["request"] = *op.RequestBody
			}
			for status, a := range answers {
				for kind, c := range a.Content {
					if c.Example == nil && !strings.HasPrefix(status, "2") && status != "request" {
						continue // docs/admin-api.md shows errors
					}
					if wrong := d.fits(c.Schema, c.Example); wrong != "" {
						t.Errorf("%s %s %s %s: example: %s", method, path, status, kind, wrong)
					}
				}
			}
		}
	}
	_, data, _ := strings.Cut(fmt.Sprint(
		d.Paths["/v1/events"]["get"].Responses["200"].Content["text/event-stream"].Example), "data: ")
	var v any
	if err := json.Unmarshal([]byte(data), &v); err != nil {
		t.Fatal(err)
	}
	stream := d.Paths["/v1/events"]["get"].Responses["200"].Content["text/event-stream"]
	if wrong := d.fits(stream.Data[adminapi.EventLeader], v); wrong != "" {
		t.Errorf("the event of the example: %s", wrong)
	}
	if d.fits(stream.Data[adminapi.EventLeader], map[string]any{"time": "x"}) == "" ||
		d.fits(stream.Data[adminapi.EventLagged], map[string]any{"missed": "x"}) == "" {
		t.Error("a value that is not an event matches: the test checks nothing")
	}
}

// listing is a Store that implements only List.
type listing struct {
	record.Store
	records []member.Record
}

func (l listing) List(context.Context, string) ([]member.Record, error) { return l.records, nil }

// saying is a fake node whose operations return err.
type saying struct {
	status  cluster.Status
	records []member.Record
	err     error
}

func (s saying) Status() cluster.Status { return s.status }
func (s saying) Records() record.Store  { return listing{records: s.records} }
func (s saying) Events(context.Context) iter.Seq[cluster.Event] {
	return func(func(cluster.Event) bool) {}
}
func (s saying) Send(context.Context, member.Address, any, ...cluster.SendOption) error {
	return s.err
}
func (s saying) Broadcast(context.Context, any, ...cluster.SendOption) error { return s.err }
func (s saying) Transfer(context.Context, member.Address) error              { return s.err }
func (s saying) Drain(context.Context) error                                 { return s.err }
func (s saying) Prefer(context.Context, member.Preference) error             { return s.err }
func (s saying) ReleaseSeats(context.Context, int) error                     { return s.err }
func (s saying) SetLabels(context.Context, map[string]string) error          { return s.err }

// leads returns n0, which leads a cluster of one member.
func leads() saying {
	var s saying
	m := member.Member{Name: "n0", Status: member.Active}
	m.Address = trioAddress(0)
	s.status.Self, s.status.View.Members = m, member.Roster{m}
	s.status.View.Leader, s.status.View.Role = m.Address, member.Leading
	s.status.Token = member.Token{Version: 3}
	s.status.View.Quorate = true
	return s
}

// withOther returns s with a second member n1.
func withOther(s saying) saying {
	other := member.Member{Name: "n1", Status: member.Active}
	other.Address = trioAddress(1)
	s.status.View.Members = append(slices.Clone(s.status.View.Members), other)
	return s
}

var jobInPath = regexp.MustCompile("^/v1/jobs/[^/]+/")

// asked is a set of responses, such as "GET /path 200" or "GET /path 400 bad_query".
type asked map[string]bool

// ask sends a request to a handler, and checks the response against the document.
func (a asked) ask(
	t *testing.T, d apiDocument, h http.Handler, method, path, body string, header ...string,
) {
	t.Helper()
	url, _, _ := strings.Cut(path, "?")
	if strings.HasSuffix(url, "/status") && url != "/v1/status" {
		url = "/v1/nodes/{name}/status"
	}
	url = jobInPath.ReplaceAllString(url, "/v1/jobs/{job}/")
	url = strings.Replace(url, "/v1/groups/a/", "/v1/groups/{group}/", 1)
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	line := fmt.Sprintf("%s %s %d", method, url, w.Code)
	kind := w.Header().Get("Content-Type")
	var v any
	if kind == "application/json" {
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	told := d.Paths[url][strings.ToLower(method)].Responses[fmt.Sprint(w.Code)].Content[kind]
	if wrong := d.fits(told.Schema, v); wrong != "" && kind == "application/json" {
		t.Errorf("%s: %s in %.300s", line, wrong, w.Body)
	}
	if w.Code >= 400 {
		line += " " + v.(map[string]any)["code"].(string)
	}
	a[line] = true
}

// TestDocumentHasEveryResponse checks that the document lists exactly the responses of the
// handlers, by path, status and code.
func TestDocumentHasEveryResponse(t *testing.T) {
	d, got, want := readDocument(t), asked{}, asked{}
	for path, methods := range d.Paths {
		for method, op := range methods {
			for status, a := range op.Responses {
				line := fmt.Sprintf("%s %s %s", strings.ToUpper(method), path, status)
				if len(a.Codes) == 0 {
					want[line] = true
				}
				for _, code := range a.Codes {
					want[line+" "+code] = true
				}
			}
		}
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	wanted, err := ReadToken(token)
	if err != nil {
		t.Fatal(err)
	}
	reads := New(leads(), "")
	for _, r := range (&handler{}).listRoutes() {
		path := strings.NewReplacer("{name}", "n0", "{job}", "a", "{group}", "a").Replace(r.path)
		got.ask(t, d, access{token: wanted}.requireCredentials(reads), r.method, path, "")
		got.ask(t, d, loopbackHost(reads), r.method, path, "", "Host", "evil.example")
		got.ask(t, d, reads, r.method, path, "")
	}
	got.looking(t, d)
	got.contending(t, d)
	got.grouping(t, d)
	for path, body := range map[string]string{
		"/v1/send": `{"name": "a", "payload": {}, "to": "n0"}`, "/v1/transfer": "", "/v1/drain": "",
		"/v1/prefer": "", "/v1/labels": "", "/v1/seats": "", "/v1/leave": "",
	} {
		got.acting(t, d, path, body)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("-document +handlers:\n%s", diff)
	}
}

// looking sends requests that cause every error of the GET paths.
func (a asked) looking(t *testing.T, d apiDocument) {
	t.Helper()
	joining, leaderless, follows := saying{}, leads(), leads()
	leaderless.status.Token = member.Token{}
	follows.status.View.Leader = trioAddress(1)
	for _, path := range []string{"/livez", "/readyz", "/v1/events", "/v1/records",
		"/v1/members"} {
		a.ask(t, d, New(joining, ""), "GET", path+"?what", "")
	}
	a.ask(t, d, New(joining, ""), "GET", "/readyz", "")
	a.ask(t, d, New(leaderless, ""), "GET", "/readyz?quorum", "")
	a.ask(t, d, New(follows, ""), "GET", "/readyz?leader", "")
	waits := follows
	waits.status.VoteWait = time.Second
	a.ask(t, d, New(waits, ""), "GET", "/readyz?votes", "")
	waits.status.NotSaving = "the disk does not answer"
	a.ask(t, d, New(waits, ""), "GET", "/readyz", "")
	a.ask(t, d, New(leaderless, ""), "GET", "/v1/leader", "")
	a.ask(t, d, New(joining, ""), "GET", "/v1/nodes/n9/status", "")
	a.ask(t, d, New(withOther(leads()), ""), "GET", "/v1/nodes/n1/status", "")
	a.ask(t, d, New(joining, ""), "GET", "/v1/events", "", "Sec-Fetch-Site", "cross-site")
	full := &handler{node: joining}
	full.streams.feed = newFeed(full.readStatus)
	full.streams.open.Store(adminapi.MaxEventStreams)
	a.ask(t, d, http.HandlerFunc(full.streams.serveStream), "GET", "/v1/events", "")
}

// posting sends requests that cause every error of the POST paths.
func (a asked) posting(t *testing.T, d apiDocument, h http.Handler, path, body string) {
	t.Helper()
	a.ask(t, d, h, "POST", path, "{")
	a.ask(t, d, h, "POST", path, body, "Sec-Fetch-Site", "cross-site")
	a.ask(t, d, h, "POST", path, body, "Content-Type", "text/plain")
	a.ask(t, d, h, "POST", path, strings.Repeat(" ", maxBodyBytes+1))
}

// refusing is a closed Store that returns the same error for each commit.
type refusing struct {
	record.Store
	err error
}

func (s refusing) Session(lost record.LostFunc) record.Session {
	return refusingSession{s.Store.Session(lost), s.err}
}
func (s refusing) List(ctx context.Context, prefix string) ([]member.Record, error) {
	if errors.Is(s.err, cluster.ErrClosed) {
		return nil, s.err
	}
	return s.Store.List(ctx, prefix)
}
func (s refusing) Watch(context.Context, string) <-chan struct{} {
	over := make(chan struct{})
	close(over)
	return over
}

type refusingSession struct {
	record.Session
	err error
}

func (s refusingSession) Commit(context.Context, ...record.Op) (member.Token, error) {
	return member.Token{}, s.err
}

// contending sends requests that produce every result of the job paths.
func (a asked) contending(t *testing.T, d apiDocument) {
	t.Helper()
	node := leads()
	without := New(node, "", WithWrite(node, nil))
	with := func(err error) http.Handler {
		s := refusing{record.NewMemory().Store("n0"), err}
		return New(node, "", WithWrite(node, nil), WithJobs(s, func() time.Duration { return 0 }))
	}
	closed := with(cluster.ErrClosed)
	for _, job := range []string{"a", "%0a"} {
		path := "/v1/jobs/" + job + "/"
		a.ask(t, d, closed, "GET", path+"events", "")
		a.ask(t, d, closed, "GET", path+"events?what", "")
		a.ask(t, d, closed, "GET", path+"events", "", "Sec-Fetch-Site", "cross-site")
		a.ask(t, d, closed, "POST", path+"lock", `{"latch": "b"}`)
		a.ask(t, d, closed, "POST", path+"elect", "")
	}
	for _, what := range []string{"lock", "elect", "enable", "disable"} {
		a.posting(t, d, closed, "/v1/jobs/a/"+what, "")
		a.ask(t, d, without, "POST", "/v1/jobs/a/"+what, "")
	}
	full := &handler{node: node, actor: node, sameSite: http.NewCrossOriginProtection()}
	WithJobs(record.NewMemory().Store("n0"), nil)(full) // too many callers: holds has no buffer
	full.streams.open.Store(adminapi.MaxEventStreams)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/jobs/{job}/lock", full.serveLock)
	mux.HandleFunc("POST /v1/jobs/{job}/elect", full.serveElect)
	mux.HandleFunc("GET /v1/jobs/{job}/events", full.jobEvents)
	a.ask(t, d, mux, "POST", "/v1/jobs/a/lock", `{"latch": "b"}`)
	a.ask(t, d, mux, "POST", "/v1/jobs/a/elect", "")
	a.ask(t, d, mux, "GET", "/v1/jobs/a/events", "")
	synctest.Test(t, func(t *testing.T) { // busy is retried
		for _, err := range []error{nil, record.ErrNoQuorum, record.ErrBusy, leader.ErrClosed,
			record.ErrUnknownOutcome, record.ErrTooLarge, errors.New("other")} {
			a.ask(t, d, with(err), "POST", "/v1/jobs/a/disable", `{"member": "n0"}`)
			a.ask(t, d, with(err), "POST", "/v1/jobs/a/disable", `{"member": "n9"}`)
			disabled := record.NewMemory().Store("n0")
			_, _ = disabled.Session(nil).Commit(t.Context(),
				record.Op{Kind: record.Set, Key: "latch/a/disabled/" + trioAddress(0).String()})
			h := New(node, "", WithWrite(node, nil),
				WithJobs(refusing{disabled, err}, func() time.Duration { return 0 }))
			a.ask(t, d, h, "POST", "/v1/jobs/a/enable", `{"member": "n0"}`)
			a.ask(t, d, h, "POST", "/v1/jobs/a/enable", `{"member": "n9"}`)
		}
	})
}

// acting sends requests that produce every result of a write operation.
func (a asked) acting(t *testing.T, d apiDocument, path, body string) {
	t.Helper()
	node := leads()
	h := New(node, "", WithWrite(node, func() {}))
	a.posting(t, d, h, path, body)
	var errs []error
	switch path {
	case "/v1/leave":
		a.ask(t, d, h, "POST", path, body)
		return
	case "/v1/send":
		errs = []error{cluster.ErrNotActive, cluster.ErrUnknownType, cluster.ErrNotDelivered,
			&cluster.HandlerError{}, cluster.ErrUnknownOutcome}
		inTrio(t, func(t *testing.T, w *trio) { // the outcome at the other members is unknown
			h := New(w.nodes[0], "", WithWrite(w.nodes[0], nil))
			a.ask(t, d, h, "POST", path, `{"name": "a", "payload": {}}`)
		})
	case "/v1/transfer":
		errs = []error{nil, cluster.ErrNotActive, &cluster.NotLeaderError{}, cluster.ErrNotElected,
			cluster.ErrNoQuorum, context.DeadlineExceeded}
	case "/v1/seats":
		errs = []error{nil, &cluster.NotLeaderError{}, context.DeadlineExceeded}
	default:
		errs = []error{nil, cluster.ErrNotElected, cluster.ErrNoQuorum, context.DeadlineExceeded}
	}
	switch path {
	case "/v1/drain", "/v1/prefer":
		a.ask(t, d, h, "POST", path, `{"member": "n9"}`)
		two := withOther(node)
		a.ask(t, d, New(two, "", WithWrite(two, nil)), "POST", path, `{"member": "n1"}`)
	case "/v1/transfer": // the leader cannot be asked yet
		follows := node
		follows.err = &cluster.NotLeaderError{Leader: trioAddress(1)}
		others := Answer(receiver.NewMux(), "", nil)
		a.ask(t, d, New(follows, "", WithWrite(follows, nil), WithOthers(others)), "POST", path, body)
	}
	for _, err := range append(errs, cluster.ErrBusy, cluster.ErrClosed, errors.New("other")) {
		node.err = err
		a.ask(t, d, New(node, "", WithWrite(node, nil)), "POST", path, body)
	}
}
