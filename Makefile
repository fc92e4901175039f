# Everything a contributor needs; 'make help' lists it.
RELEASE := $(shell sed -n 's/^const Release = "\(.*\)"/\1/p' probe/version.go)
IMAGE   ?= ghcr.io/calico-probe/probe:$(RELEASE)
CLIENT  ?= ghcr.io/calico-probe/calico-probe:$(RELEASE)
TOOLBOX ?= ghcr.io/calico-probe/toolbox:$(RELEASE)
ARCHES  := amd64 arm64
HOST    := $(shell go env GOHOSTARCH)
# Compressed size of one architecture's image may not grow beyond this (bytes).
IMAGE_MAX := 10000000
# Likewise that of the client, most of which is Kubernetes' own libraries and two probes.
CLIENT_MAX := 60000000

# Executions, not seconds: a deadline that strikes in the middle of one is called a failure.
FUZZTIME ?= 5000x

CACHE   := $(CURDIR)/.cache
SANDBOX := $(CURDIR)/bin/sandbox
LINTER  := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
RELEASER := go run github.com/goreleaser/goreleaser/v2@v2.16.0
SYFT    := 1.54.0
# One binary for client and one for each kind of node.
BUILD   := CGO_ENABLED=0 go build -trimpath -ldflags='-s -w'

# The end-to-end tests have one cluster of their own, so that they never meet
# the one somebody plays with; under another name, nor those of another suite.
E2E_CLUSTER ?= e2e
export E2E_CLUSTER

.PHONY: help docs build probe image client toolbox sandbox tools unit test suite sessions lab machine faults soak demo bench lint fuzz clean
help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

build: carried ## build the client (bin/calico-probe) and the probe for every node architecture
	$(BUILD) -o bin/calico-probe ./cmd/calico-probe

# The same sources give the same probe, whatever the commit: what carries it need not
# be built anew.
probe:
	$(foreach a,$(ARCHES),GOOS=linux GOARCH=$(a) $(BUILD) -buildvcs=false -o .cache/build/linux-$(a)/probe ./cmd/probe &&) true

# What the client carries onto nodes by exec and ssh.
CARRIED := cmd/calico-probe/carried
.PHONY: carried
carried: $(ARCHES:%=$(CARRIED)/%.gz)
$(CARRIED)/%.gz: probe
	@GOOS= GOARCH= go run scripts/gzip.go .cache/build/linux-$*/probe $@

image: probe ## write the probe's image, without a container engine
	@go run -C images . -ref $(IMAGE) -max $(IMAGE_MAX) -o $(CACHE)/probe.tar probe

client: carried ## write the client's image, for 'serve' in a cluster
	$(foreach a,$(ARCHES),GOOS=linux GOARCH=$(a) $(BUILD) -o .cache/build/linux-$(a)/calico-probe ./cmd/calico-probe &&) true
	@go run -C images . -ref $(CLIENT) -max $(CLIENT_MAX) -o $(CACHE)/client.tar client

# What the tests need of it: for this machine, not for others.
.PHONY: client-here
client-here: carried
	GOOS=linux GOARCH=$(HOST) $(BUILD) -o .cache/build/linux-$(HOST)/calico-probe ./cmd/calico-probe
	@go run -C images . -ref $(CLIENT) -platform linux/$(HOST) -plain -o $(CACHE)/client-here.tar client

toolbox: probe ## write the image with a shell and tools, from Debian's packages as they are now
	@scripts/toolbox.sh --refresh $(ARCHES)
	@go run -C images . -ref $(TOOLBOX) -o $(CACHE)/toolbox.tar toolbox

# What the tests need of it: this machine's, of whatever age, not for others.
.PHONY: toolbox-here
toolbox-here: probe
	@scripts/toolbox.sh $(HOST)
	@go run -C images . -ref $(TOOLBOX) -platform linux/$(HOST) -plain -o $(CACHE)/toolbox-here.tar toolbox

tools: ## install what the sandbox needs from Debian (as root)
	@scripts/install-tools.sh

sandbox: tools ## build the sandbox cluster's parts (minutes, once)
	@go build -C sandbox -o $(SANDBOX) .
	@$(SANDBOX) build

demo: build image sandbox ## a cluster on this machine, and one run on it
	@scripts/demo.sh

unit: ## fast tests: no root, under a minute
	go test ./...

# kubectl and helm, for tests on machines that have none: without cgo, so that most of it was
# compiled for the client.
.PHONY: clients
clients:
	@CGO_ENABLED=0 go build -C e2e/tools -trimpath -ldflags='-s -w' -o $(CACHE)/bin/ ./kubectl helm.sh/helm/v4/cmd/helm

test: build image toolbox-here client-here sandbox clients ## every test: unit, then end to end on a real cluster (as root)
	go test ./...
	@$(MAKE) --no-print-directory -j3 -Otarget suite sessions lab
	@$(MAKE) --no-print-directory machine
	go test -C sandbox -tags e2e -count=1 -timeout 10m ./...
	@$(MAKE) --no-print-directory fuzz

# Three lanes of about the same length, each with a cluster of its own: most of their time
# goes by waiting for leases, timers and packets. With five of them two cores are never idle,
# and what is tested says so of its nodes.
SESSIONS := ^Test(Sh|Terminal)
ALONE    := ^Test(Healthy|Soak|StreamFormats|WarmCheck|MachineFaults|NodeLoad)$$
suite: # on the cluster, but for the sessions and the faults
	go test -tags e2e -count=1 -timeout 30m -skip '^TestFaults$$|$(SESSIONS)|$(ALONE)' ./e2e

sessions: # the shell, on a cluster beside it; then the probe's parts on real daemons
	E2E_CLUSTER=$(E2E_CLUSTER)-sh go test -tags e2e -count=1 -timeout 30m -run '$(SESSIONS)' ./e2e
	go test -tags e2e -count=1 -timeout 20m ./probe/...

lab: # every fault that only its own cluster feels, on another
	E2E_CLUSTER=$(E2E_CLUSTER)-lab go test -tags e2e -count=1 -timeout 30m -run '^TestFaults$$' ./e2e

machine: # what takes a machine to itself: what every cluster on it feels, what is timed, and where its load counts
	go test -tags e2e -count=1 -timeout 15m -run '$(ALONE)' ./e2e

faults: build image sandbox ## every fault of the lab, and docs/faults.md of what was seen (forty minutes)
	FAULTS=write go test -tags e2e -count=1 -timeout 60m -run '^Test(Machine)?Faults$$' ./e2e

soak: build image sandbox ## a hundred healthy runs, none above info; a thousand interrupted ones that leave nothing
	SOAK=100 INTERRUPTED=1000 go test -tags e2e -count=1 -timeout 60m -run '^Test(Soak|InterruptedRuns)$$' -v ./e2e

fuzz: ## every parser on odd input, some thousand times (FUZZTIME=5000x)
	@mkdir -p $(CACHE)
	@for p in $$(go list ./probe/... ./cluster/... ./shell/... ./runbook/... ./alerts/...); do for f in $$(go test -list '^Fuzz' $$p | grep ^Fuzz); do \
		echo "fuzz $$p $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$p >.cache/fuzz.log 2>&1 || { cat .cache/fuzz.log; exit 1; }; done; done

bench: build image sandbox ## measure, as ratios within one run
	@go test -tags e2e -count=1 -run '^$$' -bench . -benchtime 10x -timeout 20m ./e2e
	@go test -tags e2e -count=1 -run '^$$' -bench . -v -benchtime 3x ./probe/icmp
	@go test -C sandbox -tags e2e -count=1 -run '^$$' -bench . -benchtime 1x -timeout 10m .

docs: ## write what is generated: references, schemas (a test says when they are stale)
	go test -count=1 ./docs/schema ./cmd/calico-probe ./install -run '^TestDocs' -update

lint: ## vet on every system, and golangci-lint
	gofmt -l . | (! grep .)
	go vet -tags e2e,release ./...
	GOOS=darwin go vet ./cmd/calico-probe
	GOOS=windows go vet ./cmd/calico-probe
	$(foreach m,. images sandbox e2e/tools,(cd $(m) && $(LINTER) run -c $(CURDIR)/.golangci.yml) &&) true

comma := ,
.PHONY: release-files release-check
# What a release's archives have beside the programs.
release-files: carried image client
	@[ -z "$(TAG)" ] || [ "$(TAG)" = v$(RELEASE) ] || { echo "the tag is $(TAG), and probe/version.go has $(RELEASE)" >&2; exit 1; }
	@rm -rf $(CACHE)/release && mkdir -p $(CACHE)/release/completions
	@go build -trimpath -o $(CACHE)/release/calico-probe ./cmd/calico-probe
	@for s in bash zsh fish powershell; do $(CACHE)/release/calico-probe completion $$s >$(CACHE)/release/completions/calico-probe.$$s || exit 1; done
	@$(CACHE)/release/calico-probe man $(CACHE)/release/man
	@rm $(CACHE)/release/calico-probe

release-check: ## the release's configuration, and all of it but publishing, into dist/ (ten minutes); SBOMs after 'make syft'
	$(RELEASER) check
	PATH=$(CACHE)/bin:$$PATH $(RELEASER) release --snapshot --clean --skip=publish$(if $(wildcard $(CACHE)/bin/syft),,$(comma)sbom)
	DIST=$(CURDIR)/dist go test -count=1 -tags release ./install -run '^Test(Archives$(if $(wildcard $(CACHE)/bin/syft),|SBOMs))$$'

.PHONY: syft
syft: # what writes the SBOMs of a release; minutes to compile, once
	GOBIN=$(CACHE)/bin CGO_ENABLED=0 go install -ldflags='-s -w -X main.version=$(SYFT)' github.com/anchore/syft/cmd/syft@v$(SYFT)

.PHONY: release-images
release-images: image client toolbox ## push a release's images, for every architecture (with skopeo, logged in)
	skopeo copy --all oci-archive:$(CACHE)/probe.tar docker://$(IMAGE)
	skopeo copy --all oci-archive:$(CACHE)/client.tar docker://$(CLIENT)
	skopeo copy --all oci-archive:$(CACHE)/toolbox.tar docker://$(TOOLBOX)

clean: ## stop the clusters and remove what was built here
	-@$(SANDBOX) down
	-@$(SANDBOX) down --name $(E2E_CLUSTER)
	-@$(SANDBOX) down --name $(E2E_CLUSTER)-sh
	-@$(SANDBOX) down --name $(E2E_CLUSTER)-lab
	rm -rf bin dist .cache $(CARRIED)/*.gz
