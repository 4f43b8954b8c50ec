// SPDX-License-Identifier: Apache-2.0

package test

import (
	"slices"
	"strings"
)

// floors is the table of docs/architecture.md, lowest first. A package imports only packages of
// lower floors. A package that is missing here is an error.
var floors = [][]string{
	{
		"member", "internal/clock", "internal/fielderr", "internal/histogram", "internal/lowest",
		"internal/handshakes", "internal/safetext", "internal/zslog", "internal/eventname",
		"test/children", "test/results", "test/programs",
	},
	{"paxos", "leader", "transport", "internal/storekey"},
	{"internal/message", "internal/transportkinds", "internal/simnet", "record"},
	{
		"statemachine", "internal/wire", "internal/mesh", "receiver", "internal/store",
		"internal/holding",
	},
	{
		"internal/diagnosis", "internal/recordtable", "test/crashdisk", "test/leadertest",
		"test/transporttest",
	},
	{"transport/memnet", "transport/quicnet"},
	{"internal/messaging", "internal/tlsfiles", "internal/steplog", "transport/tlsnet"},
	{"cluster", "test/sim", "test/sim/explore"},
	{"election", "lock", "internal/adminapi", "test/sim/cmd/...", "test/mutants"},
	{"observer", "internal/leasestore", "internal/adminclient"},
	{
		"admin", "athenatest", "cmd/athena/internal/cli", "test/bench", "test/recordtest",
		"test/workload",
	},
	{
		"cmd/athena/internal/settings", "cmd/athena/internal/command",
		"cmd/athena/internal/supervised",
	},
	{"cmd/athena/internal/ask", "cmd/athena/internal/daemon", "cmd/athena/internal/demo"},
	{
		"cmd/...", "examples/...", "test/chaos", "test/browser", "test/field", "test/linear",
		"test/peers", "test/swarm", "test", "scripts/...", "contrib/...", "spec/...",
	},
}

// testKits are packages for tests only: they may import "testing", and only tests and other kits
// may import them.
var testKits = []string{
	"internal/simnet", "athenatest", "test/transporttest", "test/leadertest", "test/recordtest",
	"test/crashdisk", "test/programs",
}

// A dependency is a third-party module with the packages that may import it; if it lists none, only
// tests may import it. docs/decisions explains the reasons for each.
type dependency struct {
	module   string
	packages []string
	page     string
}

var dependencies = []dependency{
	{"github.com/quic-go/quic-go", []string{
		"transport/quicnet", "internal/transportkinds", "test/peers",
	}, "001-quic-go.md"},
	{"github.com/vmihailenco/msgpack/v5", []string{"receiver"}, "002-msgpack.md"},
	{"github.com/rs/zerolog", []string{"cluster", "internal/zslog", "cmd/..."}, "003-zerolog.md"},
	{"github.com/CycloneDX/cyclonedx-go", []string{"scripts/..."}, "009-cyclonedx.md"},
	{"github.com/spf13/cobra", []string{"cmd/..."}, "005-cobra.md"},
	{"github.com/coreos/go-systemd/v22", []string{"cmd/..."}, "008-go-systemd.md"},
	{"github.com/spf13/pflag", []string{"cmd/..."}, "005-cobra.md"},
	{"go.yaml.in/yaml/v4", []string{"cmd/...", "test"}, "010-yaml.md"},
	{"golang.org/x/sys", []string{
		"admin", "test/bench", "test/children", "test/chaos", "internal/clock",
		"internal/store", "transport/tlsnet", "transport/quicnet", "test/transporttest",
		"test/peers", "cmd/...",
	}, "007-golang-x.md"},
	{"golang.org/x/net", []string{"cluster", "transport/quicnet", "test/chaos", "test/peers"},
		"007-golang-x.md"},
	{"github.com/chromedp/chromedp", []string{"test/browser"}, "011-dashboard.md"},
	{"github.com/chromedp/cdproto", []string{"test/browser"}, "011-dashboard.md"},
	{"github.com/hashicorp/memberlist", []string{"contrib/gossip", "test/peers"}, "014-memberlist.md"},
	{"go.etcd.io/etcd", []string{"contrib/etcd", "test/peers"}, "015-etcd.md"},
	{"google.golang.org/grpc", []string{"contrib/etcd", "contrib/grpc", "test/peers"}, "015-etcd.md"},
	{"go.uber.org/zap", []string{"test/peers"}, "015-etcd.md"},
	{"github.com/jackc/pgx/v5", []string{"contrib/postgres"}, "013-example-databases.md"},
	{"github.com/jackc/puddle/v2", []string{"contrib/postgres"}, "013-example-databases.md"},
	{"github.com/go-co-op/gocron/v2", []string{"contrib/gocron"}, "018-adapters.md"},
	{"k8s.io/client-go", []string{"contrib/kubernetes"}, "018-adapters.md"},
	{"k8s.io/api", []string{"contrib/kubernetes"}, "018-adapters.md"},
	{"k8s.io/apimachinery", []string{"contrib/kubernetes"}, "018-adapters.md"},
	{"sigs.k8s.io/controller-runtime", nil, "018-adapters.md"},
	{"github.com/go-logr/logr", nil, "018-adapters.md"},
	{"github.com/robfig/cron/v3", nil, "018-adapters.md"},
	{"github.com/hibiken/asynq", nil, "018-adapters.md"},
	{"github.com/riverqueue/river", nil, "018-adapters.md"},
	{"go.opentelemetry.io/otel", []string{"contrib/otel"}, "018-adapters.md"},
	{"github.com/caddyserver/certmagic", []string{
		"contrib/certmagic", "contrib/certmagic/caddy",
	}, "018-adapters.md"},
	{"github.com/caddyserver/caddy/v2", []string{"contrib/certmagic/caddy"}, "018-adapters.md"},
	{"github.com/letsencrypt/pebble/v2", nil, "018-adapters.md"},
	{"github.com/hashicorp/raft", []string{"test/peers"}, "017-peers.md"},
	{"github.com/hashicorp/go-hclog", []string{"test/peers"}, "017-peers.md"},
	{"github.com/nats-io", []string{"test/peers"}, "017-peers.md"},
	{"google.golang.org/protobuf", []string{"test/peers"}, "017-peers.md"},
	{"github.com/go-zookeeper/zk", []string{"contrib/zookeeper"}, "016-zookeeper.md"},
	{"github.com/google/go-cmp", nil, "006-test-modules.md"},
	{"go.uber.org/goleak", nil, "006-test-modules.md"},
	{"pgregory.net/rapid", nil, "006-test-modules.md"},
	{"github.com/anishathalye/porcupine", nil, "006-test-modules.md"},
}

// floorOf returns the floor of a package, or -1 if it has none.
func floorOf(pkg string) int {
	return slices.IndexFunc(floors, func(floor []string) bool {
		return slices.ContainsFunc(floor, func(p string) bool { return matches(p, pkg) })
	})
}

func checkFloors(t *sourceTree, report reporter) {
	for _, p := range t.packages {
		if floorOf(p.path) < 0 {
			report(p.path, "package on no floor: place it in arch_floors_test.go and architecture.md")
			continue
		}
		for _, f := range p.files {
			for _, s := range f.syntax.Imports {
				target, ours := strings.CutPrefix(importPath(s), t.module+"/")
				if !ours || target == p.path {
					continue
				}
				switch from, to := floorOf(p.path), floorOf(target); {
				case to > from:
					report(t.at(s.Pos()), "%s imports %s, which is above it", p.path, target)
				case to == from:
					report(t.at(s.Pos()), "%s imports %s, which is beside it", p.path, target)
				}
				forTests := f.isTest() || slices.Contains(testKits, p.path)
				if slices.Contains(testKits, target) && !forTests {
					report(t.at(s.Pos()), "%s is for tests only", target)
				}
			}
		}
	}
}

func checkDependencies(t *sourceTree, report reporter) {
	for _, p := range t.packages {
		for _, f := range p.files {
			inTest := f.isTest() || slices.Contains(testKits, p.path)
			for _, s := range f.syntax.Imports {
				if fault := dependencyFault(t, p.path, importPath(s), inTest); fault != "" {
					report(t.at(s.Pos()), "%s", fault)
				}
			}
		}
	}
	for _, d := range dependencies {
		page := "docs/decisions/" + d.page
		if !slices.ContainsFunc(t.texts, func(f *sourceFile) bool { return f.path == page }) {
			report(page, "missing: %s needs a page that says why it is used", d.module)
		}
	}
}

// dependencyFault describes what is wrong with an import from outside the module, or returns "".
func dependencyFault(t *sourceTree, pkg, target string, inTest bool) string {
	first, _, _ := strings.Cut(target, "/")
	switch {
	case target == "testing" || strings.HasPrefix(target, "testing/"):
		if !inTest {
			return pkg + " imports " + target + " outside of its tests"
		}
		return ""
	case !strings.Contains(first, "."), strings.HasPrefix(target, t.module+"/"):
		return "" // the standard library, or ours
	}
	i := slices.IndexFunc(dependencies, func(d dependency) bool {
		return target == d.module || strings.HasPrefix(target, d.module+"/")
	})
	if i < 0 {
		return target + " is no dependency of ours: write docs/decisions/NNN-*.md first"
	}
	d := dependencies[i]
	if inTest || slices.ContainsFunc(d.packages, func(p string) bool { return matches(p, pkg) }) {
		return ""
	}
	return target + " must not be imported by " + pkg
}
