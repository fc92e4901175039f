# Everything a contributor needs; 'make help' lists it.
RELEASE := $(shell sed -n 's/^const Release = "\(.*\)"/\1/p' probe/version.go)
IMAGE   ?= ghcr.io/calico-probe/probe:$(RELEASE)
CLIENT  ?= ghcr.io/calico-probe/calico-probe:$(RELEASE)
TOOLBOX ?= ghcr.io/calico-probe/toolbox:$(RELEASE)
ARCHES  := amd64 arm64
HOST    := $(shell go env GOHOSTARCH)
# Compressed size of one architecture's image may not grow beyond this (bytes).
IMAGE_MAX := 10000000
# Likewise that of the client, most of which is Kubernetes' own libraries and two probes. More than that it has where
# the linker cannot leave out methods, because something calls one by a name that is not known before.
CLIENT_MAX := 36000000

# Executions, not seconds: a deadline that strikes in the middle of one is called a failure.
FUZZTIME ?= 5000x

CACHE   := $(CURDIR)/.cache
SANDBOX := $(CURDIR)/bin/sandbox
LINTER  := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
RELEASER := go run github.com/goreleaser/goreleaser/v2@v2.16.0
SYFT_VERSION := 1.54.0
SYFT    := SYFT_CHECK_FOR_APP_UPDATE=false SYFT_FILE_METADATA_CATALOGER_ENABLED=true $(CACHE)/bin/syft
# A release's client names its images by digest: PINNED is the file with their names, as release-files
# makes it and a release has it. 'make build PINNED=images.txt' then gives the released client again.
PINNED  ?=
digest  = $(or $(shell sed -n 's|.*/$(1):.*@||p' $(PINNED)),$(error $(PINNED) has no digest of $(1)))
# A function may begin at any 8 bytes, not only at every 32nd: 0.7 MB.
LDFLAGS = -s -w -funcalign=8$(if $(PINNED), -X main.probeDigest=$(call digest,probe) -X main.toolboxDigest=$(call digest,toolbox))
# The same sources are to give the same bytes, whatever Go is set to do on a machine.
SAME    := GOFLAGS=-trimpath GOAMD64=v1 GOARM64=v8.0
# gRPC's traces of its requests are left out: they bring html/template, whose templates may call any method, so that the
# linker keeps those of the whole program, a quarter of it.
TAGS    := -tags grpcnotrace
# One binary for client and one for each kind of node.
BUILD   = CGO_ENABLED=0 $(if $(PINNED),$(SAME)) go build $(TAGS) -trimpath $(if $(PINNED),-buildvcs=true) -ldflags='$(LDFLAGS)'

# The end-to-end tests have one cluster of their own, so that they never meet
# the one somebody plays with; under another name, nor those of another suite.
E2E_CLUSTER ?= e2e
export E2E_CLUSTER

.PHONY: help docs build probe image client toolbox sandbox tools unit test test-all suite sessions lab machine pages others chromium screenshots faults soak sweep demo bench lint fuzz vuln clean
help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

build: carried ## build the client (bin/calico-probe) and the probe for every node architecture
	$(BUILD) -o bin/calico-probe ./cmd/calico-probe

# The same sources give the same probe, whatever the commit: what carries it need not be built again.
probe:
	$(foreach a,$(ARCHES),GOOS=linux GOARCH=$(a) CGO_ENABLED=0 $(SAME) go build $(TAGS) -buildvcs=false \
		-ldflags='-s -w' -o .cache/build/linux-$(a)/probe ./cmd/probe &&) true

# What the client carries onto nodes by exec and ssh.
CARRIED := cmd/calico-probe/carried
.PHONY: carried
carried: $(ARCHES:%=$(CARRIED)/%.gz)
$(CARRIED)/%.gz: probe
	@GOOS= GOARCH= go run scripts/gzip.go .cache/build/linux-$*/probe $@

.PHONY: bpf
bpf: ## compile the programs that 'drops --trace' loads (committed; with Debian 12's clang)
	@scripts/bpf.sh

image: probe ## write the probe's image, without a container engine
	@go run -C images . -ref $(IMAGE) -max $(IMAGE_MAX) -o $(CACHE)/probe.tar -pin $(CACHE)/probe.ref probe

client: carried ## write the client's image, for 'serve' in a cluster
	$(foreach a,$(ARCHES),GOOS=linux GOARCH=$(a) $(BUILD) -o .cache/build/linux-$(a)/calico-probe ./cmd/calico-probe &&) true
	@go run -C images . -ref $(CLIENT) -max $(CLIENT_MAX) -o $(CACHE)/client.tar -pin $(CACHE)/client.ref client

# What the tests need of it: for this machine, not for others.
.PHONY: client-here
client-here: carried
	GOOS=linux GOARCH=$(HOST) $(BUILD) -o .cache/build/linux-$(HOST)/calico-probe ./cmd/calico-probe
	@go run -C images . -ref $(CLIENT) -platform linux/$(HOST) -plain -o $(CACHE)/client-here.tar client

toolbox: probe ## write the image with a shell and tools, from the Debian packages of images/toolbox.lock
	@scripts/toolbox.sh $(ARCHES)
	@go run -C images . -ref $(TOOLBOX) -o $(CACHE)/toolbox.tar -pin $(CACHE)/toolbox.ref toolbox

.PHONY: toolbox-lock
toolbox-lock: ## write images/toolbox.lock anew, with the versions that Debian has today
	@scripts/toolbox.sh --lock $(ARCHES)

# What the tests need of it: this machine's, and of today's packages where Debian no longer has those
# of the lock, so that the tests do not end with a point release of Debian's.
.PHONY: toolbox-here
toolbox-here: probe
	@scripts/toolbox.sh --or-today $(HOST)
	@go run -C images . -ref $(TOOLBOX) -platform linux/$(HOST) -plain -o $(CACHE)/toolbox-here.tar toolbox

tools: ## install what the sandbox needs from Debian (as root)
	@scripts/install-tools.sh

sandbox: tools ## build the sandbox cluster's parts (minutes, once)
	@go build -C test/sandbox -o $(SANDBOX) .
	@$(SANDBOX) build

demo: build image sandbox ## a cluster on this machine, and one run on it
	@scripts/demo.sh

unit: ## fast tests: no root, under a minute
	go test ./...
	go test -C images ./...

# kubectl and helm, for tests on machines that have none, and what counts tokens: without cgo, so that most of it was
# compiled for the client.
.PHONY: clients
clients:
	@CGO_ENABLED=0 go build -C test/e2e/tools -trimpath -ldflags='-s -w' -o $(CACHE)/bin/ ./kubectl ./tokens helm.sh/helm/v4/cmd/helm

PARTS := build image toolbox-here client-here sandbox clients

# The gate: every unit test, one fault of each family, the hostile and the nothing-changes
# tests in their short form (-short). What takes minutes, or a quiet machine, is in test-all.
# TestHealthy comes first: it waits for a quiet machine, which there is only before the rest.
test: $(PARTS) ## the gate: unit tests, then end to end on real clusters in short form (as root)
	go test -tags e2e -short -count=1 -timeout 10m -run '^TestHealthy$$' ./test/e2e
	go test ./...
	go test -C images ./...
	@$(MAKE) --no-print-directory gate-suite gate-lab gate-sessions

test-all: $(PARTS) ## every test there is (an hour, as root): when its family was changed, and before a release
	go test ./...
	go test -C images ./...
	@$(MAKE) --no-print-directory mutants-unit
	@$(MAKE) --no-print-directory suite lab sessions
	@$(MAKE) --no-print-directory machine pages
	go test -C test/sandbox -tags e2e -count=1 -timeout 10m ./...
	@$(MAKE) --no-print-directory race
	@$(MAKE) --no-print-directory fuzz

# Three lanes, one after the other, each with its own cluster. One run of the client keeps two slow cores busy, so
# parallel lanes finish no earlier. They load the nodes until checks time out, and the tests fail for that.
SESSIONS := ^Test(Sh|Terminal)
ALONE    := ^Test(Healthy|Soak|StreamFormats|WarmCheck|MachineFaults|NodeLoad|Pressure)$$
suite: # on the cluster, but for the sessions and the faults
	go test -tags e2e -count=1 -timeout 45m -skip '^TestFaults$$|$(SESSIONS)|$(ALONE)' ./test/e2e

sessions: # the shell, on a cluster beside it; then the probe's parts on real daemons
	E2E_CLUSTER=$(E2E_CLUSTER)-sh go test -tags e2e -count=1 -timeout 30m -run '$(SESSIONS)' ./test/e2e
	go test -tags e2e -count=1 -timeout 20m ./probe/... ./internal/subject/...

lab: # every fault that only its own cluster feels, on another
	E2E_CLUSTER=$(E2E_CLUSTER)-lab go test -tags e2e -count=1 -timeout 45m -run '^TestFaults$$' ./test/e2e

machine: # what takes a machine to itself: what every cluster on it feels, what is timed, and where its load counts
	go test -tags e2e -count=1 -timeout 15m -skip '^TestPressure$$' -run '$(ALONE)' ./test/e2e
	go test -tags e2e -count=1 -timeout 10m -run '^TestPressure$$' ./test/e2e # its kubelet turns others' pods away too
	go test -tags e2e -count=1 -timeout 10m ./test/e2e/hollow # a thousand nodes that are objects
	go test -tags e2e -count=1 -timeout 15m ./test/e2e/many   # twelve that are real

# The gate is short: its slow tests, and all faults but one of each family, say themselves that they are left to test-all.
# These go after the faults, so that the lanes take about as long.
GATE_AFTER_FAULTS := ^Test(InterruptedRuns|MountsBelowTheRootAreReadOnly)$$
GATE := go test -tags e2e -short -count=1 -timeout 45m
.PHONY: gate-suite gate-sessions gate-lab
gate-suite:
	$(GATE) -skip '^TestFaults$$|$(SESSIONS)|$(ALONE)|$(GATE_AFTER_FAULTS)' ./test/e2e
gate-sessions:
	E2E_CLUSTER=$(E2E_CLUSTER)-sh $(GATE) -run '$(SESSIONS)' ./test/e2e
	go test -tags e2e -short -count=1 -timeout 20m ./probe/... ./internal/subject/...
gate-lab:
	E2E_CLUSTER=$(E2E_CLUSTER)-lab $(GATE) -run '^TestFaults$$' ./test/e2e
	E2E_CLUSTER=$(E2E_CLUSTER)-lab $(GATE) -run '$(GATE_AFTER_FAULTS)' ./test/e2e

.PHONY: mutants mutants-unit
mutants-unit: # takes back each promise of docs/security.md that a unit test holds: the test must fail
	go run ./test/e2e/mutants unit

mutants: $(PARTS) ## take back the other promises of docs/security.md: a test on a cluster must fail (an hour, as root)
	go run ./test/e2e/mutants e2e

# Chromium is 126 MB to load and nothing else needs it, so the tests do without it where it is not.
pages: # the pages of -o html and serve, in a real browser, where there is one
	@command -v chromium >/dev/null || echo "skipped: there is no chromium to look at pages of HTML: 'make chromium'"
	go test -tags e2e -count=1 -timeout 10m ./test/e2e/pages

chromium: ## install Debian's Chromium, for the tests of pages of HTML (as root)
	@command -v chromium >/dev/null || { apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; }

OTHERS := $(CACHE)/others
others: $(PARTS) ## tests with k9s, node-problem-detector and the MCP inspector themselves (builds them, minutes)
	GOBIN=$(OTHERS)/bin CGO_ENABLED=0 go install github.com/derailed/k9s@v0.50.16
	CGO_ENABLED=0 go build -C test/e2e/npd -o $(OTHERS)/bin/ k8s.io/node-problem-detector/cmd/nodeproblemdetector
	npm install --prefix $(OTHERS) --no-audit --no-fund --no-save --ignore-scripts \
		node-linux-$(subst amd64,x64,$(HOST))@22.23.3 @modelcontextprotocol/inspector@2.12.0
	go test -tags e2e -count=1 -timeout 15m -run '^Test(K9s|Inspector|NodeProblemDetector)$$' ./test/e2e

screenshots: chromium ## make the pictures of pages in docs/ anew
	SCREENSHOTS=$(CURDIR)/docs go test -tags e2e -count=1 -timeout 10m -run '^TestDocsScreenshots$$' ./test/e2e/pages

faults: build image sandbox ## every fault of the lab, and docs/faults.md of what was seen (forty minutes)
	FAULTS=write go test -tags e2e -count=1 -timeout 60m -run '^Test(Machine)?Faults$$' ./test/e2e

# With Calico itself, which is not built here: CALICO is a folder of image archives, and each MANIFEST starts
# it another way (test/sandbox/README.md).
.PHONY: real
MANIFEST ?= $(CALICO)/calico.yaml
real: $(if $(CALICO),build image sandbox) ## tests on Calico itself: CALICO=DIR [MANIFEST="FILE..."]
ifeq ($(CALICO),)
	@echo "skipped: no CALICO=DIR with the image archives of Calico; test/sandbox/README.md says what is in it"
else
	@for m in $(MANIFEST); do echo "with $$m"; CALICO=$(abspath $(CALICO)) MANIFEST=$$(realpath $$m) E2E_CLUSTER=$(E2E_CLUSTER)-real \
		go test -tags e2e -count=1 -timeout 30m -run '^TestReal' ./test/e2e || exit 1; done
endif

.PHONY: accuracy
accuracy: $(if $(CALICO),build image sandbox) ## docs/accuracy.md, of what TestRealFaults sees: CALICO=DIR (forty minutes)
	ACCURACY=$(CURDIR)/docs/accuracy.md CALICO=$(abspath $(CALICO)) E2E_CLUSTER=$(E2E_CLUSTER)-real \
		go test -tags e2e -count=1 -timeout 80m -run '^TestRealFaults$$' ./test/e2e

.PHONY: versions
versions: $(if $(CALICO),build image sandbox) ## docs/versions.md, of what TestVersions sees: CALICO=DIR [MANIFEST="FILE..."]
	@for m in $(MANIFEST); do echo "with $$m"; VERSIONS=$(CURDIR)/docs/versions.md CALICO=$(abspath $(CALICO)) MANIFEST=$$(realpath $$m) \
		E2E_CLUSTER=$(E2E_CLUSTER)-real go test -tags e2e -count=1 -timeout 60m -run '^TestVersions$$' ./test/e2e || exit 1; done

.PHONY: machines
machines: $(if $(CALICO),build image sandbox) ## faults on nodes that are virtual machines, with IPIP: CALICO=DIR MANIFEST=FILE
	bin/sandbox build --machines
	CALICO=$(abspath $(CALICO)) MANIFEST=$(abspath $(MANIFEST)) SANDBOX_UP=--machines E2E_CLUSTER=$(E2E_CLUSTER)-machines \
		go test -tags e2e -count=1 -timeout 180m -run '^Test(Machines|RebootWithSwap)$$' ./test/e2e

sweep: build image sandbox ## let each call of the API fail once in each way, and write docs/sweep.md (two hours)
	SWEEP=all go test -count=1 -timeout 30m -run '^TestEachCallFails$$' ./internal/examine ./cmd/calico-probe
	SWEEP=all go test -tags e2e -count=1 -timeout 240m -run '^TestSweep$$' ./test/e2e

soak: build image sandbox ## a hundred healthy runs, a thousand interrupted ones that leave nothing, floods of two minutes
	SOAK=100 INTERRUPTED=1000 FLOOD=2m go test -tags e2e -count=1 -timeout 90m -run '^Test(Soak|InterruptedRuns|LiarFloods|LiarIsInterrupted)$$' -v ./test/e2e

fuzz: ## every fuzz target there is, some thousand times (FUZZTIME=5000x)
	@FUZZTIME=$(FUZZTIME) scripts/fuzz.sh

.PHONY: race
race: ## unit tests with Go's race detector (needs gcc, which 'make tools' installs)
	CGO_ENABLED=1 go test -race -timeout 20m ./...

BENCHED := $(CACHE)/bench.txt
bench: build image toolbox-here sandbox clients ## measure, as ratios within one run, and write docs/performance.md
	go test -tags e2e -count=1 -run '^$$' -bench . -benchtime 10x -timeout 20m ./test/e2e >$(BENCHED)
	go test -tags e2e -count=1 -run '^$$' -bench . -benchtime 1x -timeout 20m ./test/e2e/hollow >>$(BENCHED)
	go test -tags e2e -count=1 -run '^$$' -bench . -benchtime 3x ./probe/icmp >>$(BENCHED)
	go test -tags e2e -count=1 -run '^$$' -bench . -benchtime 3x ./probe/skbdrop >>$(BENCHED)
	go test -C test/sandbox -tags e2e -count=1 -run '^$$' -bench . -benchtime 1x -timeout 10m . >>$(BENCHED)
	@cat $(BENCHED)
	@go run ./test/e2e/performance <$(BENCHED) >$(CACHE)/performance.md && mv $(CACHE)/performance.md docs/performance.md

docs: ## write what is generated and in git: schemas, manifests, parts of docs (a test says when they are stale)
	go test -count=1 ./docs/schema ./cmd/calico-probe ./internal/examine ./internal/install -run '^TestDocs' -update

lint: ## vet on every system, and golangci-lint
	gofmt -l . | (! grep .)
	go vet -tags e2e,release ./...
	GOOS=darwin go vet ./cmd/calico-probe ./internal/session ./internal/ui
	GOOS=windows go vet ./cmd/calico-probe ./internal/session ./internal/ui
	$(foreach m,. images test/sandbox test/e2e/tools,(cd $(m) && $(LINTER) run -c $(CURDIR)/.golangci.yml) &&) true
	@$(MAKE) --no-print-directory prose

.PHONY: prose
VALE := $(CACHE)/bin/vale
$(VALE):
	GOBIN=$(CACHE)/bin go install github.com/vale-cli/vale/v3/cmd/vale@v3.22.0

prose: $(VALE) ## count what reads as if translated: no count may rise (builds vale once, with a C compiler)
	go run ./test/prose -vale $(VALE)

vuln: ## scan for known vulnerabilities (needs the database of vuln.go.dev, or GOVULNDB)
	@scripts/vuln.sh

.PHONY: release-files release-check release-key syft
# What a release has beside the programs: its images, their names with digests, SBOMs by syft (SPDX)
# of each, and what goes into the archives.
FILES := $(CACHE)/release
release-files: carried image toolbox
	@[ -z "$(TAG)" ] || [ "$(TAG)" = v$(RELEASE) ] || { echo "the tag is $(TAG), and probe/version.go has $(RELEASE)" >&2; exit 1; }
	@[ -z "$(TAG)" ] || openssl pkey -in "$$RELEASE_KEY" -pubout | cmp -s - release.pub || \
		{ echo "RELEASE_KEY is not the file with the private key of release.pub: see CONTRIBUTING.md, 'A release'" >&2; exit 1; }
	@rm -rf $(FILES) && mkdir -p $(FILES)/completions $(FILES)/sbom
	@cat $(CACHE)/probe.ref $(CACHE)/toolbox.ref >$(FILES)/images.txt
	@$(MAKE) --no-print-directory client ldflags PINNED=$(FILES)/images.txt
	@cat $(CACHE)/client.ref >>$(FILES)/images.txt
	@for i in probe client toolbox; do for a in $(ARCHES); do \
		$(SYFT) scan --quiet oci-archive:$(CACHE)/$$i.tar --platform linux/$$a --source-name "$$(sed 's/:[^/]*$$//' $(CACHE)/$$i.ref)" \
		--source-version "$$(sed 's/.*@//' $(CACHE)/$$i.ref)" --output spdx-json=$(FILES)/sbom/image-$${i}_linux_$$a.sbom.json || exit 1; done; done
	@$(SAME) go build -buildvcs=true -o $(FILES)/calico-probe ./cmd/calico-probe
	@for s in bash zsh fish powershell; do $(FILES)/calico-probe completion $$s >$(FILES)/completions/calico-probe.$$s || exit 1; done
	@$(FILES)/calico-probe man $(FILES)/man
	@$(FILES)/calico-probe docs $(FILES)/docs
	@rm $(FILES)/calico-probe

# For goreleaser, which builds the client for every system.
.PHONY: ldflags
ldflags:
	@echo "$(LDFLAGS)" >$(FILES)/ldflags

# All of it but publishing; signed, for a try, with a key of its own.
release-check: syft ## the release's configuration, and all of it but publishing, into dist/ (twenty minutes; the first time more)
	$(RELEASER) check
	@openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out $(CACHE)/check.key
	@openssl pkey -in $(CACHE)/check.key -pubout -out $(CACHE)/check.pub
	RELEASE_KEY=$(CACHE)/check.key PATH=$(CACHE)/bin:$$PATH $(RELEASER) release --snapshot --clean --skip=publish
	DIST=$(CURDIR)/dist RELEASE_PUB=$(CACHE)/check.pub go test -count=1 -timeout 30m -tags release ./internal/install -run '^TestRelease'

# The private key stays with whoever releases; release.pub is to be committed.
release-key: # a pair of keys to sign releases with: RELEASE_KEY=FILE, and release.pub
	@[ -n "$$RELEASE_KEY" ] && [ ! -e "$$RELEASE_KEY" ] && [ ! -e release.pub ] || \
		{ echo "RELEASE_KEY is to name a new file, and release.pub is not to be there" >&2; exit 1; }
	@umask 077 && openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes256 -out "$$RELEASE_KEY"
	@openssl pkey -in "$$RELEASE_KEY" -pubout -out release.pub

syft: # what writes the SBOMs of a release; minutes to compile, once
	GOBIN=$(CACHE)/bin CGO_ENABLED=0 go install -ldflags='-s -w -X main.version=$(SYFT_VERSION)' github.com/anchore/syft/cmd/syft@v$(SYFT_VERSION)

# What release-files has made, under the names and digests that the release has compiled in; signed for
# those who verify images where they are run.
.PHONY: release-images
release-images: ## push a release's images, for every architecture (with skopeo, logged in), and sign them (with cosign, COSIGN_KEY=FILE)
	@for i in probe client toolbox; do \
		grep -qxF "$$(cat $(CACHE)/$$i.ref)" $(FILES)/images.txt || { echo "$(CACHE)/$$i.tar is not what 'make release-files' made: run that" >&2; exit 1; }; \
	done
	@for i in probe client toolbox; do ref=$$(sed 's/@.*//' $(CACHE)/$$i.ref) && \
		skopeo copy --all --preserve-digests oci-archive:$(CACHE)/$$i.tar:$${ref##*:} docker://$$ref || exit 1; done
	cosign sign --yes --key $(COSIGN_KEY) --use-signing-config=false --tlog-upload=false $$(cat $(FILES)/images.txt)

clean: ## stop the clusters and remove what was built here
	-@$(SANDBOX) down
	-@$(SANDBOX) down --name $(E2E_CLUSTER)
	-@$(SANDBOX) down --name $(E2E_CLUSTER)-sh
	-@$(SANDBOX) down --name $(E2E_CLUSTER)-lab
	rm -rf bin dist .cache $(CARRIED)/*.gz
