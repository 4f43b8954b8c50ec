// SPDX-License-Identifier: Apache-2.0

package message_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/athena-go/athena/internal/message"
)

// constants lists the constants of a file that start with prefix, as declared.
func constants(t *testing.T, file, prefix string) []string {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for n := range ast.Preorder(syntax) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			continue
		}
		if name, ok := strings.CutPrefix(spec.Names[0].Name, prefix); ok && name != "s" {
			names = append(names, name)
		}
	}
	return names
}

// TestReasonNames checks that each reason has the name of its constant. Nodes send the numbers of
// reasons to peers, so the table of names must always match the constants.
func TestReasonNames(t *testing.T) {
	names := constants(t, "reason.go", "Reason")
	if len(names) != int(message.Reasons) {
		t.Fatalf("got %d constants, want %d", len(names), message.Reasons)
	}
	for i, name := range names {
		if got, want := message.Reason(i).String(), words(name); got != want {
			t.Errorf("Reason%s: got %q, want %q", name, got, want)
		}
	}
	if got, want := message.Reasons.String(), "reason(53)"; got != want {
		t.Errorf("one past the last reason: got %q, want %q", got, want)
	}
}

// words turns NotSettled into "not settled".
func words(camel string) string {
	var b strings.Builder
	for i, r := range camel {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func bodies() []message.Body {
	return []message.Body{
		message.Greet{}, message.LeaderQuery{}, message.LeaderResponse{},
		message.JoinClusterRequest{}, message.JoinClusterResponse{},
		message.MemberStatusUpdate{}, message.ClusterAlignment{},
		message.LeaderKeepAlive{}, message.LeaderKeepAliveAck{},
		message.SeedKeepAlive{}, message.SeedKeepAliveAck{},
		message.LeaderRelieve{}, message.ReJoinCluster{},
		message.LeaderStatusQuery{}, message.LeaderStatusQueryResponse{},
		message.Proposal{}, message.Vote{}, message.LeaderElected{}, message.MemberLeave{},
		message.RecordRequest{}, message.RecordResponse{}, message.RecordUpdate{},
		message.MemberTraits{}, message.RunEnded{}, message.Relayed{},
	}
}

// TestKindNames checks that every event of protocol.md section 2 has a struct and a number, with
// the same name everywhere.
func TestKindNames(t *testing.T) {
	names := constants(t, "message.go", "Kind")
	all := bodies()
	if len(names) != int(message.Kinds)-1 || len(all) != len(names) {
		t.Fatalf("got %d constants and %d structs, want %d of both",
			len(names), len(all), message.Kinds-1)
	}
	for i, b := range all {
		kind := message.Kind(i + 1)
		if got := b.Kind(); got != kind {
			t.Errorf("%T: got kind %d, want %d", b, got, kind)
		}
		if got, want := reflect.TypeOf(b).Name(), names[i]; got != want || kind.String() != want {
			t.Errorf("kind %d: got struct %s and name %s, want %s", kind, got, kind, want)
		}
	}
	if got, want := message.Kinds.String(), "Kind(26)"; got != want {
		t.Errorf("one past the last kind: got %q, want %q", got, want)
	}
}

func TestStageNames(t *testing.T) {
	if got := message.Pre.String() + " " + message.Formal.String(); got != "pre formal" {
		t.Errorf("got %q, want %q", got, "pre formal")
	}
}
