# One command per task; `make help` lists them. CI calls the same targets.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo down test lint unit e2e e2e-restore-old bench generate advisories build need-cargo need-go need-chromium

# Tools and control-plane binaries are kept outside the repository, so that a fresh clone finds them again.
export FLEET_CACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/flotilla
TOOLS := $(FLEET_CACHE_DIR)/tools
NEXTEST_VERSION := 0.9.151
DENY_VERSION := 0.20.2
export NEXTEST_PROFILE := $(if $(CI),ci,default)
FLEET_LOCAL := target/debug/fleet-local
# The API alone is tested before the agents start, since they would answer to what the tests write.
# Scenarios wait most of the time, so more of them than cores run at once.
E2E_THREADS := --test-threads 6
# These kill and restart what others use, or speak of every member there is, or count what is written: one at a time, with
# nobody else around.
BREAKS_THE_FLEET := (binary(guides) + (binary(scheduling) & test(basics::)) + binary(admission) + binary(membership_faults) + binary(placement_faults) + binary(rollout_faults) + binary(applier_faults) + binary(safety_faults) + binary(migration) + binary(policies) + binary(restore) + binary(dashboard_faults) + binary(launcher) + binary(launcher_faults))
NEXTEST := .ci/nextest
# Built with the unit tests: of one package alone, cargo would choose other features and build everything once more.
SCENARIOS := $(NEXTEST) --workspace
# Whether modules use each other in a circle: a unit test that needs nothing else, so that it also runs alone in two seconds.
MODULES := $(or $(CARGO_TARGET_DIR),target)/modules
# Rules of accessibility that browser tests hold pages to (MPL-2.0; only fetched, never shipped).
AXE := $(TOOLS)/axe.min.js
AXE_VERSION := 4.10.3
AXE_SHA256 := 880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb
# Tests that passed only at their second try, which only CI gives them.
FLAKY := $(or $(CARGO_TARGET_DIR),target)/flaky.txt

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: build ## a local fleet (hub + 3 members) that stays up, and how to look at it with kubectl
	@$(FLEET_LOCAL) demo

down: ## stop the local fleet and remove what it left
	@if [ -x $(FLEET_LOCAL) ]; then $(FLEET_LOCAL) down; else echo "no local fleet: fleet-local was never built here"; fi

test: ## everything: what CI runs
	@rm -f $(FLAKY)
	@trap 'if [ -s $(FLAKY) ]; then echo "── flaky tests, passed only when tried again; each is a bug:"; sort -u $(FLAKY); \
		else echo "── flaky tests: none"; fi' EXIT; $(MAKE) --no-print-directory lint unit e2e

lint: need-cargo $(TOOLS)/bin/cargo-deny ## fmt, clippy, circles of modules, supply chain, commit messages
	@echo "── lint"
	@.ci/commits
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets --locked -- -D warnings
	@CARGO_MANIFEST_DIR=$(CURDIR)/e2e rustc --edition 2024 --test -o $(MODULES) e2e/src/modules.rs && $(MODULES) --quiet >/dev/null || { $(MODULES); exit 1; }
	@$(TOOLS)/bin/cargo-deny --log-level error check bans licenses sources

unit: need-cargo $(TOOLS)/bin/cargo-nextest ## tests that need no cluster
	@echo "── unit tests"
	@$(NEXTEST) --workspace -E 'not (package(fleet-e2e) & kind(test))'
	@cargo test --locked --quiet --workspace --doc

e2e: build $(TOOLS)/bin/cargo-nextest $(AXE) need-chromium ## scenarios and faults on real control planes
	@echo "── end-to-end tests"
	@$(SCENARIOS) --no-run
	@$(FLEET_LOCAL) run --members 3 -- bash -euc '$(SCENARIOS) -E "binary(api)"; $(FLEET_LOCAL) agents; $(SCENARIOS) $(E2E_THREADS) -E "package(fleet-e2e) & kind(test) - binary(api) - $(BREAKS_THE_FLEET)"'
	@echo "── tests that break what others share, on a fleet of their own"
	@$(FLEET_LOCAL) run --members 2 -- bash -euc '$(SCENARIOS) -E "binary(launcher) + binary(launcher_faults)"; $(FLEET_LOCAL) agents; $(SCENARIOS) -E "$(BREAKS_THE_FLEET) - binary(launcher) - binary(launcher_faults)"'

e2e-restore-old: build $(TOOLS)/bin/cargo-nextest ## etcd restored from a backup that is ten minutes old (about a quarter of an hour)
	@$(FLEET_LOCAL) run --members 2 -- bash -euc '$(FLEET_LOCAL) agents; FLEET_BACKUP_AGE=600 $(SCENARIOS) -E "binary(restore)"'

bench: need-cargo need-go ## figures, as ratios and request counts
	@cargo build --locked --profile bench-fast --workspace --bins
	@target/bench-fast/fleet-bench

generate: need-cargo ## write the CRDs in deploy/ from the Rust types, what else the charts carry, and the page of the command line
	@cargo run --locked -q -p fleet-api --bin generate-crds -- deploy
	@cargo run --locked -q -p kubectl-fleet -- manual > docs/operations/cli.md.new && mv docs/operations/cli.md.new docs/operations/cli.md
	@for chart in deploy/charts/*/; do cp $${chart}values.yaml $${chart}files/values.yaml; done

advisories: need-cargo $(TOOLS)/bin/cargo-deny ## known vulnerabilities in dependencies (needs network access to the advisory database)
	@$(TOOLS)/bin/cargo-deny check advisories

# Kept only if it is the one that is expected.
$(AXE):
	@command -v npm >/dev/null || { echo "npm is missing: it fetches axe-core $(AXE_VERSION), or put its axe.min.js at $@" >&2; exit 1; }
	@mkdir -p $(@D)
	@npm pack --silent --pack-destination $(@D) axe-core@$(AXE_VERSION) >/dev/null && tar xzOf $(@D)/axe-core-$(AXE_VERSION).tgz package/axe.min.js > $@.part
	@echo "$(AXE_SHA256)  $@.part" | sha256sum --check --quiet && mv $@.part $@

# Browser tests need Chromium and its driver; where they may be installed without asking, they are.
need-chromium:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& echo "── installing chromium and chromium-driver (once)" && apt-get update -qq && apt-get install -qqy --no-install-recommends chromium chromium-driver fonts-dejavu-core >/dev/null; } \
		|| { echo "chromium and chromedriver are missing: install Debian's packages chromium and chromium-driver, or put both on the PATH" >&2; exit 1; }

build: need-cargo need-go
	@cargo build --locked --workspace --bins

need-cargo:
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust with rustup (https://rustup.rs); rust-toolchain.toml names the version" >&2; exit 1; }

# Go builds the control planes of the local fleet, once; not needed when $$FLEET_KUBE_BIN_DIR has them.
need-go:
	@command -v go >/dev/null || [ -n "$${FLEET_KUBE_BIN_DIR:-}" ] || { echo "go is missing: install Go 1.26 or newer (https://go.dev/dl), or set FLEET_KUBE_BIN_DIR to a directory with etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and kwok" >&2; exit 1; }

# Debug builds: installed once in two minutes instead of five, and fast enough for what they do here.
$(TOOLS)/bin/cargo-nextest: | need-cargo
	@echo "── installing cargo-nextest $(NEXTEST_VERSION) (once, about 3 minutes)"
	@cargo install --debug --locked --quiet --root $(TOOLS) --no-default-features --features default-no-update cargo-nextest@$(NEXTEST_VERSION)

$(TOOLS)/bin/cargo-deny: | need-cargo
	@echo "── installing cargo-deny $(DENY_VERSION) (once, about 3 minutes)"
	@cargo install --debug --locked --quiet --root $(TOOLS) --no-default-features cargo-deny@$(DENY_VERSION)
