# `make demo` and `make test` need only Go and make. `make tools` installs the tools of the other
# targets. A target whose tool is missing names the tool and skips the check; chaos, soak and events
# fail instead.

GO        ?= go
TIMEOUT   ?= 20m
FUZZTIME  ?= 20s
FUZZ      ?= .
ARGS      ?=

# Variables of sim and swarm. Unset ones have the defaults of `athena sim`; swarm-nodes uses SEED
# and RUNS.
SEED      ?=
RUNS      ?=
SIZE      ?=
FOR       ?=
REPLAY    ?=
HISTORY   ?=
SWARM     ?= 1h

# Number of drawn histories of each size that make spec validates. RUNS counts its chaos runs.
HISTORIES ?=

# Number of nodes of chaos, soak, events, stuck and rolling. Unset, each has its own default.
NODES     ?=

# Path of an athena program of another version, which two nodes of chaos and soak run
# (scripts/previous.sh builds one), or "previous" for that of test/previous.txt.
OTHER     ?=

# Transport of their nodes: quic or tls.
TRANSPORT ?=

# A measurement of athena bench with its flags, such as failover --reps 5.
BENCH     ?=

# A measurement of test/peers with its flags.
PEERS     ?= all

GOLANGCI  := v2.15.0
PACKAGES  := plantuml graphviz gcc libc6-dev iproute2 nftables chromium prometheus haproxy nginx-light etcd-server postgresql zookeeper
SUDO       = $(if $(filter 0,$(shell id -u)),,sudo)
BIN       := $(CURDIR)/bin
PLATFORMS := linux/arm64 darwin/arm64 windows/amd64
PREVIOUS  := $(BIN)/previous
# Modules whose dependencies compile for minutes: make contrib tests them.
HEAVY     := contrib/kubernetes/ contrib/certmagic/caddy/
# Other nested modules, which keep heavy dependencies out of the main one.
MODULES   := $(filter-out $(HEAVY),$(dir $(wildcard examples/*/go.mod contrib/*/go.mod scripts/*/go.mod test/*/go.mod)))
# Many tests wait, for processes and servers. So more packages and tests run at a time than there are
# cores, and test and test/chaos, which wait the longest, are the first.
WAITING   := $(shell expr $$(getconf _NPROCESSORS_ONLN || echo 2) + 2)
# The targets run go vet themselves.
TEST_FLAGS = $(DEPTH) -vet=off -shuffle=on -timeout=$(TIMEOUT)
FLOOD_FLAGS = $(if $(FOR),-for $(FOR)) $(if $(NODES),-n $(NODES)) \
              $(if $(TRANSPORT),-transport $(TRANSPORT))
CHAOS_FLAGS = $(if $(SEED),-seed $(SEED)) $(FLOOD_FLAGS) \
              $(if $(NAMES),-names,$(if $(OTHER),-athena $(OTHER:previous=$(PREVIOUS)/athena) -daemons 2,-athena $(BIN)/athena)) \
              $(if $(ONLY),-only "$(ONLY)") $(if $(HISTORY),-history $(HISTORY))
BUILDS    := ^Test(AConsumerBuilds|ProcessFIPS|ProcessRelease)
EXPLORE_FLAGS = -refusals -attempts 2 -crashes 1
SIM_FLAGS  = $(if $(SEED),--seed $(SEED)) $(if $(RUNS),--runs $(RUNS)) \
             $(if $(SIZE),--size $(SIZE)) $(if $(FOR),--for $(FOR)) $(if $(REPLAY),--replay $(REPLAY)) \
             $(if $(HISTORY),--history)

.DEFAULT_GOAL := help
.PHONY: help demo build release image test full builds check vet fmt cross race flakes sim swarm swarm-nodes explore spec chaos jepsen soak events stuck rolling witness linear mixed fuzz bench peers docs tools linters contrib

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | \
	  awk -F ':.*## ' '{ printf "  make %-11s  %s\n", $$1, $$2 }'
	@echo '  variables    ARGS for demo; SEED RUNS SIZE FOR REPLAY HISTORY for sim; SWARM for swarm; SEED RUNS for swarm-nodes; SEED NODES FOR TRANSPORT for chaos, jepsen, soak and events; OTHER ONLY NAMES for chaos and soak; NODES FOR TRANSPORT for stuck and rolling; RUNS LOAD ONLY for flakes; FOR RETURN TRANSPORT for witness; FUZZTIME FUZZ for fuzz; BENCH for bench; PEERS for peers'

demo: build ## run five nodes on this machine, with a dashboard
	$(BIN)/athena demo $(ARGS)

# In a checkout the program has its commit, even if GOFLAGS has -buildvcs=false.
build: ## compile bin/athena
	CGO_ENABLED=0 $(GO) build -trimpath $(if $(shell git rev-parse HEAD 2>/dev/null),-buildvcs=true) \
	  -o $(BIN)/athena ./cmd/athena

release: ## build archives for linux and darwin, SBOMs and checksums in dist/
	scripts/release.sh

image: ## build the container image athena with Docker
	@if docker info >/dev/null 2>&1; then set -x; docker build --pull -t athena:$$(git describe --tags --always) -t athena .; \
	else echo 'image: skipped: no Docker daemon responds'; fi

# With -short, a proof that takes minutes runs at a smaller depth, or is skipped and names the target
# that runs it.
test race: DEPTH := -short
test race flakes: export TMPDIR = $(shell scripts/memory.sh)
test: ## check format, run go vet and all tests in random order
full: ## like test, but run each proof at its full depth
test full: fmt vet
	@scripts/beside.sh \
	  '$(GO) test $(TEST_FLAGS) -p=$(WAITING) -parallel=8 ./test ./test/chaos ./...' \
	  $(foreach m,$(MODULES),'$(GO) vet -C $m ./... && $(GO) test -C $m $(TEST_FLAGS) -parallel=16 ./...')

builds: ## build and run releases, FIPS 140-3 programs, and programs that import this release
	$(GO) test ./test -count=1 -run '$(BUILDS)'

check: fmt vet ## check the rules of STYLE.md: format, vet, architecture, linters
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

cross: ## check that all packages and tests compile for other platforms
	@set -e; for p in $(PLATFORMS); do echo "$(GO) vet for $$p"; \
	  CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) vet ./...; done

race: ## run the tests under the race detector, with DEPTH= at full depth
	@if command -v "$$($(GO) env CC)" >/dev/null; then GO="$(GO)" DEPTH="$(DEPTH)" scripts/race.sh; \
	else echo "race: skipped: the C compiler $$($(GO) env CC) is not installed (make tools)"; fi

flakes: ## run each test package RUNS times (20) beside LOAD busy processes (4), and list what failed: ONLY
	@GO="$(GO)" RUNS="$(RUNS)" LOAD="$(LOAD)" ONLY="$(ONLY)" TIMEOUT="$(TIMEOUT)" scripts/flakes.sh

sim: build ## run the simulator: SEED=7 RUNS=100 SIZE=5 FOR=10m, or REPLAY=file; HISTORY=1
	$(BIN)/athena sim $(SIM_FLAGS)

swarm: build ## simulate for SWARM of CPU time (1h), and check that all planted bugs are found
	$(BIN)/athena sim --budget $(SWARM) --coverage $(SIM_FLAGS)
	$(GO) test ./test/mutants -count=1 -v -timeout 3h -run TestMutantsAre -mutants

explore: ## explore every order of an election of three (docs/simulation.md)
	$(GO) run ./test/sim/cmd/explore $(EXPLORE_FLAGS)

spec: ## check the specification in spec/, recorded runs and planted bugs against it: HISTORIES RUNS SEED
	@GO="$(GO)" HISTORIES="$(HISTORIES)" RUNS="$(RUNS)" SEED="$(SEED)" scripts/spec.sh

swarm-nodes: ## run whole nodes in drawn worlds (test/swarm): SEED RUNS
	$(GO) test ./test/swarm -count=1 -v -timeout 0 -run TestSwarm -runs $(or $(RUNS),1000) \
	  $(if $(SEED),-seed $(SEED))

chaos: build ## run real processes under real faults for five minutes (root, nft): SEED FOR NODES TRANSPORT ONLY NAMES HISTORY=DIR
	@$(GO) build -o $(BIN)/chaos ./test/chaos
	@$(if $(filter previous,$(OTHER)),scripts/previous.sh previous $(PREVIOUS)/athena)
	@$(BIN)/chaos run $(CHAOS_FLAGS)

jepsen: ## take the faults of Jepsen's tests in turn, and judge the operations by Porcupine: SEED FOR NODES TRANSPORT ONLY
	@$(GO) build -o $(BIN)/chaos ./test/chaos
	@out=$(CURDIR)/results/jepsen/$$(date -u +%Y%m%d-%H%M%S); \
	$(BIN)/chaos run -nemesis 10s -out $$out $(if $(SEED),-seed $(SEED)) $(FLOOD_FLAGS) \
	  $(if $(ONLY),-only "$(ONLY)"); code=$$?; [ $$code = 3 ] || \
	$(GO) test -C test/linear -count=1 -v -run Evidence -evidence $$out . && exit $$code

soak: build ## run chaos for two hours or FOR, and check for leaks
	@$(GO) build -o $(BIN)/chaos ./test/chaos
	@$(if $(filter previous,$(OTHER)),scripts/previous.sh previous $(PREVIOUS)/athena)
	@$(BIN)/chaos soak $(CHAOS_FLAGS)

events: ## account for ten million events under real faults (root, nft): SEED FOR NODES TRANSPORT
	@$(GO) build -o $(BIN)/chaos ./test/chaos
	@$(BIN)/chaos events $(FLOOD_FLAGS) $(if $(SEED),-seed $(SEED))

stuck: ## check the memory of a node whose handler never returns: FOR NODES TRANSPORT
	@$(GO) build -o $(BIN)/chaos ./test/chaos
	@$(BIN)/chaos stuck $(FLOOD_FLAGS)

rolling: ## restart, upgrade and downgrade five nodes one by one under load: FOR NODES TRANSPORT
	@$(GO) build -o $(BIN)/chaos ./test/chaos
	@$(BIN)/chaos rolling $(FLOOD_FLAGS)
	@if scripts/previous.sh previous $(PREVIOUS)/chaos test/chaos; then \
	  $(BIN)/chaos rolling -previous $(PREVIOUS)/chaos $(FLOOD_FLAGS); \
	elif [ $$? = 3 ]; then echo 'rolling: upgrade and downgrade skipped'; else exit 1; fi

witness: ## let two hosts and a witness fail in turn (root, nft): FOR RETURN TRANSPORT
	@$(GO) build -o $(BIN)/chaos ./test/chaos
	@$(BIN)/chaos witness $(if $(FOR),-for $(FOR)) $(if $(RETURN),-return $(RETURN)) \
	  $(if $(TRANSPORT),-transport $(TRANSPORT))

contrib: ## test the modules whose dependencies compile for minutes
	@set -e; for m in $(HEAVY); do $(GO) vet -C $$m ./...; $(GO) test -C $$m -shuffle=on ./...; done
	$(GO) test ./test -count=1 -run TestAConsumerBuilds -heavy

# The targets are found by name. TestFuzzTargets checks that all are run.
linear: ## judge 1,000 histories of records and locks by Porcupine, and planted bugs
	$(GO) test -C test/linear -count=1 -v -timeout 1h -run 'Histories$$|Planted' -worlds 63 -planted .

mixed: ## run this program beside those of earlier commits
	$(GO) test ./test -count=1 -v -run 'TestMixedVersions|TestUnknownProtocolVersion' -mixed

fuzz: ## run each fuzz target, or those that match FUZZ, for FUZZTIME
	@set -e; found=$$(grep -rHoE '^func Fuzz\w+' --include='*_test.go' . | grep -E '$(FUZZ)' | sort || true); \
	if [ -z "$$found" ]; then echo 'fuzz: no target matches FUZZ=$(FUZZ)'; exit 1; fi; \
	echo "$$found" | while IFS=: read -r file func; do \
	  $(GO) test -C "$$(dirname "$$file")" -run='^$$' -fuzz="^$${func#func }$$" \
	    -fuzztime=$(FUZZTIME) -fuzzminimizetime=5s .; done

bench: build ## run the Go benchmarks, or athena bench with BENCH="oneway --reps 3"
	$(if $(BENCH),$(BIN)/athena bench $(BENCH),$(GO) test -run='^$$' -bench=. -benchmem ./...)

peers: ## measure Athena beside etcd, gRPC, NATS and others (25 min): PEERS="failover -n 3"
	$(GO) build -C test/peers -o $(BIN)/peers .
	$(BIN)/peers $(PEERS)

docs: ## render docs/plantuml/*.puml to SVG
	@scripts/diagrams.sh

tools: ## install the tools of other targets (Debian packages as root, linters into bin/)
	@if command -v apt-get >/dev/null; then set -x; \
	  $(SUDO) apt-get update -q && $(SUDO) apt-get install -y --no-install-recommends $(PACKAGES); \
	else echo 'tools: apt-get not found; install the missing ones of: $(PACKAGES)'; fi
	$(MAKE) linters

linters: ## install the linters of make check into bin/
	GOBIN=$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
