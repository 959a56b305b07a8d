# hencedge: build, test and package. `make help` lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO        ?= go
RELEASE   := $(shell sed -n 's/^const release = "\(.*\)"/\1/p' cmd/hencedge/version.go)
VERSION   ?= $(shell git describe --tags --match 'v*' --dirty 2>/dev/null || echo v$(RELEASE)-dev)
LDFLAGS   := -s -w -X main.version=$(VERSION)
FUZZTIME  ?= 10s
BENCHTIME ?= 300ms

# Modules of this repository: the product, the checks and the comparison against
# another library, the generator of the vector code.
MODULES := . interop/lattigo bench cutrantt/cpu/_asm

# Packages with goroutines of their own: these run under the race detector.
RACE_PKGS := ./agent/... ./evaluator ./evaluator/engine ./evaluator/store ./internal/daemon/... ./keyholder ./keyholder/alert ./keyholder/console ./internal/traces ./enroll ./transport/...

# The arithmetic that must be right on the boards: run under emulation.
ARM64_PKGS := ./cutrantt/prng ./cutrantt/cpu ./cutrantt/conformance ./henc ./henc/bfv ./henc/internal/crt ./henc/internal/embed ./henc/internal/wire ./henc/secret

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-zA-Z0-9_-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/hencedge for this machine: no cgo, opens the GPU's driver at run time, needs glibc
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/hencedge ./cmd/hencedge

.PHONY: build-static
build-static: ## build bin/hencedge-static without GPU support: fully static, for any libc or none
	CGO_ENABLED=0 $(GO) build -tags nogpu -trimpath -ldflags '$(LDFLAGS)' -o bin/hencedge-static ./cmd/hencedge

.PHONY: demo
demo: ## the whole job on this machine: sensors, encryption, broker, evaluation, decryption
	$(GO) run ./cmd/hencedge demo

.PHONY: test
test: test-plain test-race ## every test, the race detector on the concurrent packages, the Lattigo checks, the generators (-j2: side by side)

.PHONY: test-plain
test-plain: ## every test without the race detector
	$(GO) test ./...
	$(GO) test -C interop/lattigo ./...
	$(GO) test -C bench ./...
	$(GO) test -C cutrantt/cpu/_asm ./...

.PHONY: test-race
test-race: ## the concurrent packages under the race detector (needs a C compiler)
	@if command -v $$($(GO) env CC) >/dev/null; then \
	  set -x; export CGO_ENABLED=1; $(GO) test -race $(RACE_PKGS); \
	  $(GO) test -race -run Concurrent ./cutrantt/conformance ./cutrantt/cuda ./evaluator/program ./henc; \
	  $(GO) test -race -run TestForests ./evaluator/model/encrypted; \
	elif [ -n "$${HENCEDGE_TEST_REQUIRE:-}" ]; then \
	  echo "test-race: needs a C compiler" >&2; exit 1; \
	else \
	  echo "test-race: skipped: the race detector needs a C compiler" >&2; \
	fi

.PHONY: test-deep
test-deep: ## the largest parameter sets as well (deep16-d23, std15-d11), and compact windows end to end: minutes and several GiB
	HENCEDGE_TEST_DEEP=1 $(GO) test -timeout 60m ./henc/... ./cmd/hencedge/internal/demo ./evaluator/model/rangecover
	HENCEDGE_TEST_DEEP=1 $(GO) test -timeout 60m -count=1 -run TestReplayCompact -v ./chaos
	HENCEDGE_TEST_DEEP=1 $(GO) test -C interop/lattigo -timeout 60m ./...

ROUNDS ?= 1000

.PHONY: chaos
chaos: ## kill, cut, fill and damage the running programs for ROUNDS rounds and count every sample (about 1 s a round, some minutes for emulated GPUs, which need g++, then 15 minutes for TestDayTwo; root for the full disk)
	HENCEDGE_CHAOS_ROUNDS=$(ROUNDS) $(GO) test -count=1 -timeout 24h -run 'TestChaos|TestDayTwo' -v ./chaos

.PHONY: outage
outage: ## an outage of 24 hours with 32 channels at 10 Hz, on a simulated clock: several minutes and 2 GiB of disk
	HENCEDGE_OUTAGE_HOURS=24 $(GO) test -count=1 -timeout 2h -run TestOutage -v ./agent

.PHONY: mutate
mutate: ## put one-line faults into the arithmetic, and into the CUDA kernels on an emulated GPU, and show that the suites find each
	HENCEDGE_MUTATE=1 $(GO) test -count=1 -timeout 60m -run TestMutations -v ./cutrantt/conformance
	HENCEDGE_MUTATE=1 $(GO) test -count=1 -timeout 120m -run TestMutations -v ./cutrantt/cuda/cudatest

.PHONY: timing
timing: ## show that no branch and no address depends on a secret in samplers, keys, encryption and decryption (needs valgrind), and compare times on fixed and random ones; three minutes
	cross/timing.sh

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (default 10s)
	cross/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: build ## time every operation of every parameter set
	bin/hencedge bench

.PHONY: charts
charts: ## draw docs/charts from docs/records
	$(GO) run ./cmd/hencedge bench --read docs/records/h200.jsonl --plot docs/charts
	$(GO) run ./cmd/hencedge bench --read <(head -n 1 docs/records/evaluator-h200.jsonl) --plot docs/charts

.PHONY: bench-compare
bench-compare: ## time encryption and evaluation beside Lattigo, one core, interleaved; JSON in bin/bench-compare.json
	mkdir -p bin
	$(GO) run -C bench . -json ../bin/bench-compare.json

.PHONY: measure
measure: build-static ## memory, processor share, start and traffic of a running agent against mosquitto, as JSON (2 minutes a set)
	cross/measure-agent.sh bin/hencedge-static

.PHONY: cross
cross: ## build linux/amd64 and linux/arm64 into dist/, each with GPU support and static without, and each for evaluators alone
	cross/build.sh dist '$(LDFLAGS)'

.PHONY: package
package: ## build the Debian and RPM packages for amd64 and arm64 into dist/: all roles, and the evaluator alone
	cross/package.sh dist '$(VERSION)'

.PHONY: version
version: ## print the version that builds of this tree get
	@echo '$(VERSION)'

.PHONY: release
release: ## build what the page of release VERSION needs into dist/release: archives, packages, container images, bills of materials, checksums
	cross/release.sh dist/release '$(VERSION)'

.PHONY: test-package
test-package: ## install, run, reload, upgrade, remove and purge the package under a systemd booted in namespaces (root, mosquitto)
	cross/package.sh dist/test v0.0.1 "$$($(GO) env GOARCH)"
	cross/package.sh dist/test v0.0.2 "$$($(GO) env GOARCH)"
	cross/test-package.sh dist/test/hencedge_0.0.1_*.deb dist/test/hencedge_0.0.2_*.deb

.PHONY: test-arm64
test-arm64: ## run the arm64 program and the test binaries of the arithmetic under qemu-user
	cross/emulate.sh --program $(ARM64_PKGS)

.PHONY: kernels
kernels: ## compile the CUDA kernels into kernels/ (needs nvcc 12.4: make cuda-toolkit; nothing else does)
	kernels/build.sh

.PHONY: cuda-toolkit
cuda-toolkit: ## put the CUDA compiler of the record into .cuda/ (1 GB from Debian), for make kernels NVCC=.cuda/bin/nvcc
	cross/cuda-toolkit.sh .cuda

.PHONY: test-gpu
test-gpu: ## the arithmetic, the scheme, programs and models on this machine's GPU; fails without one
	CUTRANTT_TEST_REQUIRE=cuda $(GO) test -count=1 ./cutrantt/... ./henc
	CUTRANTT_TEST_BACKEND=cuda $(GO) test -count=1 ./henc ./henc/secret ./henc/bootstrap ./evaluator/program ./evaluator/engine ./evaluator/model/encrypted
	CUTRANTT_TEST_BACKEND=cuda $(GO) test -count=1 -run 'TestModels$$' ./cmd/hencedge
	$(GO) test -count=1 -run 'FallbackOnGPU|SeveralGPUs' ./evaluator
	CUTRANTT_TEST_REQUIRE=cuda HENCEDGE_TEST_ROUNDS=10000 $(GO) test -count=1 -run TestGPURounds -v ./henc

.PHONY: sanitize-gpu
sanitize-gpu: ## compute-sanitizer over the arithmetic on this machine's GPU: bounds, races, memory that nothing was written to (needs the CUDA toolkit)
	GO="$(GO)" cross/sanitize-gpu.sh

.PHONY: test-python
test-python: ## an independent decoder in Python reads every test vector, and keys, windows and results made now (needs python3)
	HENCEDGE_TEST_REQUIRE=python3 $(GO) test -count=1 -run TestPython -v ./cmd/hencedge

.PHONY: test-emulated
test-emulated: ## the CUDA backend without a GPU: its kernels, compiled by g++, on an emulated one (about 5 minutes of processor time)
	GO="$(GO)" cutrantt/cuda/cudatest/emulator/test.sh

.PHONY: lint
lint: ## gofmt, go vet for each platform and for evaluators alone, duplicates between the roles, staticcheck, revive (builtins, long lines and functions), and govulncheck where it can be reached
	cross/lint.sh $(MODULES)

.PHONY: check-generated
check-generated: ## fail if a generated file or go.mod is not what its generator writes
	cross/check-generated.sh $(MODULES)

.PHONY: console
console: ## build the page of results serve into keyholder/console/assets (needs node and npm; Go alone builds the product)
	cd keyholder/console/web && npm ci --no-audit --no-fund && node build.mjs

.PHONY: check-console
check-console: ## build the page again and compare it with what is committed (needs node and npm)
	cd keyholder/console/web && npm ci --no-audit --no-fund && out=$$(mktemp -d) && trap 'rm -rf "$$out"' EXIT && \
	  node build.mjs "$$out" && diff -r "$$out" ../assets && echo "check-console: nothing changed"

.PHONY: bench-console
bench-console: build ## time each view of the page in Chromium over 1,000,000 results of 10,001 series, the server's memory, and the way of a result into the page
	HENCEDGE_TEST_REQUIRE=chromium HENCEDGE_BENCH_PROGRAM=$(CURDIR)/bin/hencedge $(GO) test -run '^$$' -bench 'Browser|Live' -benchtime 20x -timeout 30m -v ./keyholder/console

.PHONY: clean
clean: ## remove what the targets made
	rm -rf bin dist
