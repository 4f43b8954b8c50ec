# Two commands need nothing but Go and make: `make demo` and `make test`. What
# another target needs beyond them is installed by `make tools`; where it is
# missing, the target says so by name and skips; chaos, soak and events, which would
# have checked nothing then, end with an error.

GO        ?= go
TIMEOUT   ?= 9m
FUZZTIME  ?= 20s
FUZZ      ?= .
ARGS      ?=

# Of the simulator. What is not set is left to the defaults of `athena sim`.
SEED      ?=
RUNS      ?=
SIZE      ?=
FOR       ?=
REPLAY    ?=
HISTORY   ?=
SWARM     ?= 1h

# Of the runs with real processes. What is not set is left to chaos.
NODES     ?=

# A measurement with its flags: failover --reps 5.
BENCH     ?=

GOLANGCI  := v2.15.0
PACKAGES  := plantuml graphviz gcc libc6-dev iproute2 nftables chromium prometheus haproxy etcd-server zookeeper
SUDO       = $(if $(filter 0,$(shell id -u)),,sudo)
BIN       := $(CURDIR)/bin
# Modules of their own, because of what they import. Their tests wait for real servers
# more than they work, so many run at once.
MODULES   := $(dir $(wildcard examples/*/go.mod contrib/*/go.mod scripts/*/go.mod test/*/go.mod))
CHAOS_FLAGS = $(if $(SEED),-seed $(SEED)) $(if $(FOR),-for $(FOR)) $(if $(NODES),-n $(NODES)) \
              -athena $(BIN)/athena
FLOOD_FLAGS = $(if $(FOR),-for $(FOR)) $(if $(NODES),-n $(NODES))
EXPLORE_FLAGS = -refusals -attempts 2 -crashes 1
SIM_FLAGS  = $(if $(SEED),--seed $(SEED)) $(if $(RUNS),--runs $(RUNS)) \
             $(if $(SIZE),--size $(SIZE)) $(if $(FOR),--for $(FOR)) $(if $(REPLAY),--replay $(REPLAY)) \
             $(if $(HISTORY),--history)

.DEFAULT_GOAL := help
.PHONY: help demo build release test check vet fmt race sim swarm explore chaos soak events stuck rolling fuzz bench docs tools

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | \
	  awk -F ':.*## ' '{ printf "  make %-7s  %s\n", $$1, $$2 }'
	@echo '  variables    ARGS for demo; SEED RUNS SIZE FOR REPLAY HISTORY for sim; SWARM for swarm; SEED NODES FOR for chaos, soak and events; NODES FOR for stuck and rolling; FUZZTIME FUZZ for fuzz; BENCH for bench'

demo: build ## five nodes on this machine, and a page that shows them
	$(BIN)/athena demo $(ARGS)

build: ## compile bin/athena
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN)/athena ./cmd/athena

release: ## archives for linux and darwin, what they are built from, checksums, into dist/
	scripts/release.sh

test: fmt vet ## everything that must pass: format, vet, all tests in random order
	$(GO) test -shuffle=on -timeout=$(TIMEOUT) ./...
	@set -e; for m in $(MODULES); do echo "$(GO) test -C $$m ./..."; $(GO) vet -C $$m ./...; \
	  $(GO) test -C $$m -shuffle=on -parallel=16 -timeout=$(TIMEOUT) ./...; done

check: fmt vet ## the rules of STYLE.md: format, vet, architecture, linters
	$(GO) test -count=1 -run='^Test(Architecture|Planted|SoundModule)$$' ./test
	@scripts/figures.sh
	@if lint=$$(PATH="$(BIN):$$PATH" command -v golangci-lint); then \
	  set -e; for m in . $(MODULES); do (cd $$m && "$$lint" run ./...); done; \
	else echo 'check: linters skipped: golangci-lint is not installed (make tools)'; fi

vet:
	$(GO) vet ./...

fmt:
	@files=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .); \
	if [ -n "$$files" ]; then echo 'run gofmt -w on:' $$files; exit 1; fi

race: ## all tests under the race detector
	@if command -v "$$($(GO) env CC)" >/dev/null; then set -x; \
	  CGO_ENABLED=1 $(GO) test -race -shuffle=on -timeout=30m ./...; \
	else echo "race: skipped: the C compiler $$($(GO) env CC) is not installed (make tools)"; fi

sim: build ## the simulator: make sim SEED=7 RUNS=100 SIZE=5 FOR=10m, or REPLAY=file; HISTORY=1
	$(BIN)/athena sim $(SIM_FLAGS)

swarm: build ## seeds for SWARM of CPU time (1h), and every planted bug
	$(BIN)/athena sim --budget $(SWARM) --coverage $(SIM_FLAGS)
	$(GO) test ./test/mutants -count=1 -v -timeout 3h -run TestMutantsAre -mutants

explore: ## every order of an election of three, refusals included (docs/simulation.md)
	$(GO) run ./internal/sim/cmd/explore $(EXPLORE_FLAGS)

chaos: build ## five minutes of real processes under real faults (root, nft): SEED FOR NODES
	@$(GO) build -o $(BIN)/chaos ./test/chaos
	@$(BIN)/chaos run $(CHAOS_FLAGS)

soak: build ## the same for two hours or FOR, and whether anything leaks
	@$(GO) build -o $(BIN)/chaos ./test/chaos
	@$(BIN)/chaos soak $(CHAOS_FLAGS)

events: ## ten million events under real faults, each accounted for (root, nft): SEED FOR NODES
	@$(GO) build -o $(BIN)/chaos ./test/chaos
	@$(BIN)/chaos events $(FLOOD_FLAGS) $(if $(SEED),-seed $(SEED))

stuck: ## a handler that never returns while ten nodes send to it, and the memory: FOR NODES
	@$(GO) build -o $(BIN)/chaos ./test/chaos
	@$(BIN)/chaos stuck $(FLOOD_FLAGS)

rolling: ## restarts of five nodes in order while 1,000 events a second are sent: FOR NODES
	@$(GO) build -o $(BIN)/chaos ./test/chaos
	@$(BIN)/chaos rolling $(FLOOD_FLAGS)

# Targets are found, not listed here: TestFuzzTargets wants all of them to be run.
fuzz: ## each fuzz target for FUZZTIME, or those that FUZZ matches
	@set -e; found=$$(grep -rHoE '^func Fuzz\w+' --include='*_test.go' . | grep -E '$(FUZZ)' | sort || true); \
	if [ -z "$$found" ]; then echo 'fuzz: no target matches FUZZ=$(FUZZ)'; exit 1; fi; \
	echo "$$found" | while IFS=: read -r file func; do \
	  $(GO) test -C "$$(dirname "$$file")" -run='^$$' -fuzz="^$${func#func }$$" \
	    -fuzztime=$(FUZZTIME) -fuzzminimizetime=5s .; done

bench: build ## the Go benchmarks, or BENCH="oneway --reps 3" of real processes (athena bench)
	$(if $(BENCH),$(BIN)/athena bench $(BENCH),$(GO) test -run='^$$' -bench=. -benchmem ./...)

docs: ## render docs/plantuml/*.puml to the SVG files beside them
	@scripts/diagrams.sh

tools: ## install what docs, race, check and chaos use (Debian packages as root, linters into bin/)
	@if command -v apt-get >/dev/null; then set -x; \
	  $(SUDO) apt-get update -q && $(SUDO) apt-get install -y --no-install-recommends $(PACKAGES); \
	else echo 'tools: no apt-get here; install by other means what is missing of: $(PACKAGES)'; fi
	GOBIN=$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
