# `make` alone prints this help. What a target needs and cannot find it installs, and says so.

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
GO      ?= go
SETUP   := sh tests/setup/install.sh
COUNT   := $(GO) run ./tests/count
BUILD   := CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)'
PREFIX  ?= /usr/local
UNITTIME ?= 8m
E2ETIME  ?= 22m

# The names that bin/slurm answers to: those whose command is compiled in.
COMMANDS := sbatch squeue scancel sinfo scontrol sacct srun salloc sacctmgr sstat sdiag sprio sshare sreport strigger sattach sbcast scrontab seff
LINKS    := $(foreach c,$(COMMANDS),$(if $(wildcard slurmrest/cli/$(c).go),$(c))) sburst

.PHONY: help build unit e2e test test-all clients lint generate golden slinky sim differential bench demo live install clean setup-build setup-e2e payload

help: ## print this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup-build:
	@$(SETUP) build

setup-e2e: setup-build
	@$(SETUP) e2e

# The small init of containers, which sbatchd-node carries.
payload: setup-build
	@$(BUILD) -o runtime/execinit/payload/files/init-$$($(GO) env GOARCH) ./runtime/execinit/small

build: setup-build payload ## build bin/sbatchd, bin/sbatchd-node, bin/sbatchd-gpu, bin/slurm and its links
	@mkdir -p bin
	$(BUILD) -o bin/sbatchd ./sbatchd
	$(BUILD) -o bin/sbatchd-node ./runtime/node
	$(BUILD) -tags urfave_cli_no_docs -o bin/slurm ./slurmrest/slurm
	@if command -v "$${CC:-gcc}" >/dev/null; then set -x; CGO_ENABLED=1 CGO_CFLAGS='-O2 -g -Wno-deprecated-declarations' $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/sbatchd-gpu ./runtime/nvml; \
	else echo 'build: no C compiler, so no bin/sbatchd-gpu: agents fall back to nvidia-smi'; fi
	@for name in $(LINKS); do ln -sfn slurm bin/$$name; done

unit: setup-build payload ## unit tests with the race detector
	@$(COUNT) unit: -race -timeout $(UNITTIME) ./...

e2e: setup-e2e build ## end-to-end tests: real containerd, registry, S3 and SSH servers
	@$(COUNT) e2e: -tags e2e -count=1 -timeout $(E2ETIME) ./tests/e2e/...

test: setup-e2e build ## what CI runs: unit, golden and e2e, then the counts
	@$(COUNT) unit: -race -timeout $(UNITTIME) ./... -- golden: -tags e2e -count=1 ./tests/golden/... -- e2e: -tags e2e -count=1 -timeout $(E2ETIME) ./tests/e2e/...

test-all: test lint slinky sim differential bench clients ## test, lint and the heavy oracles

lint: ## golangci-lint, gofmt, go vet
	@$(SETUP) lint
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not formatted:"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	.cache/tools/golangci-lint run ./...

generate: ## write again what is generated
	$(GO) generate ./...

golden: setup-e2e build ## what the real Slurm answered once, text for text, without it
	@$(COUNT) golden: -tags e2e -count=1 ./tests/golden/...

slinky: setup-e2e build ## a Go client of others (SlinkyProject/slurm-client) against a real sbatchd
	@if (cd tests/slinky && $(GO) mod download github.com/SlinkyProject/slurm-client); \
	then $(COUNT) slinky: -C tests/slinky -count=1 ./...; \
	else echo 'slinky: skipped: github.com/SlinkyProject/slurm-client can not be downloaded'; fi

sim: ## the whole system on fake time
	@if [ -d tests/sim ]; then $(COUNT) sim: -count=1 ./tests/sim/...; else echo 'sim: no simulation yet: fake time is used by the tests beside the code (make unit)'; fi

differential: setup-e2e build ## the same sessions on the real Slurm and on sbatchd, and the score
	@$(GO) run ./tests/differential

clients: setup-build build ## software written for Slurm, run on sbatchd: Snakemake, Toil, batchtools, MPI launchers, ...
	@sh tests/setup/clients.sh
	@$(COUNT) clients: -tags e2e -count=1 -timeout 25m ./tests/clients/...

bench: setup-e2e build ## one line a figure: name, value, unit, ratio to the real Slurm
	@$(GO) run ./tests/bench

demo: ## rent a node, lose it, finish the job, and show the bill
	@$(SETUP) build demo
	@$(MAKE) --no-print-directory build
	@$(GO) run ./contrib/demo

live: ## tests against a rented GPU (needs an account)
	@echo 'live: no cloud provider is compiled in yet: nothing to run'

install: build ## copy the programs to PREFIX (default /usr/local) and the systemd units
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 bin/sbatchd bin/sbatchd-node bin/slurm $(DESTDIR)$(PREFIX)/bin/
	@if [ -e bin/sbatchd-gpu ]; then install -m 755 bin/sbatchd-gpu $(DESTDIR)$(PREFIX)/bin/; fi
	@for name in $(LINKS); do ln -sfn slurm $(DESTDIR)$(PREFIX)/bin/$$name; done
	install -d $(DESTDIR)/etc/systemd/system
	install -m 644 contrib/systemd/*.service $(DESTDIR)/etc/systemd/system/

clean: ## remove what make built here
	rm -rf bin .cache
