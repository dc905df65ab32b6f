# `make` lists what there is. Works from a bare Debian 12 with rustup: what is missing is installed by apt-get (as root).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build demo test test-long test-edges wheel packages ros2 lint bench sweep traces faults evidence tables stats oracle real gate router fuzz doc book deny clean

# One folder for everything that is compiled.
export CARGO_TARGET_DIR ?= $(CURDIR)/target
export PATH := $(PATH):$(HOME)/.cargo/bin
# Where nobody has built while working, nothing is compiled so that it can be compiled again quickly, or for line numbers in backtraces.
ifeq ($(wildcard $(CARGO_TARGET_DIR)/debug/incremental/*),)
export CARGO_INCREMENTAL ?= 0
export CARGO_PROFILE_DEV_DEBUG ?= 0
endif
# rust-toolchain.toml pins the compiler; where rustup neither has it nor can get it, its stable one must do.
ifeq ($(shell cargo --version >/dev/null 2>&1 || echo absent),absent)
export RUSTUP_TOOLCHAIN := stable
endif

TAUT := $(CARGO_TARGET_DIR)/release/taut
INTEROP := $(CARGO_TARGET_DIR)/interop
DEMO_TAUT := $(CARGO_TARGET_DIR)/demo/taut
DEMO := $(firstword $(wildcard scenarios/demo.toml) scenarios/shared-link.toml)
FUZZ_TARGETS = $(notdir $(basename $(wildcard fuzz/fuzz_targets/*.rs)))
# Property tests draw the same cases every time: PROPTEST_RNG_SEED=2 PROPTEST_CASES=5000 make test draws others.
export PROPTEST_RNG_SEED ?= 1
# make sweep SEEDS=1..3 SCENARIOS=scenarios/telehaptic-qos/load.toml
SEEDS ?= 1..20
# Those behind `taut recommend` have a target of their own.
SCENARIOS ?= $(filter-out scenarios/recommend/%,$(sort $(wildcard scenarios/*/*.toml)))
# make stats CAMPAIGN=out/sweep/teleop/wall
CAMPAIGN ?= out/transports
STATS_VENV := $(CARGO_TARGET_DIR)/stats/venv
# make fuzz SECONDS_EACH=600
SECONDS_EACH ?= 60

# $(call need,command:package …): installs the packages whose commands, or files, are missing.
define need
@command -v cargo >/dev/null || { echo "make: cargo is missing; install Rust by rustup, https://rustup.rs" >&2; exit 1; }; \
missing=(); \
for pair in $(1); do command -v "$${pair%%:*}" >/dev/null || [ -e "$${pair%%:*}" ] || missing+=("$${pair#*:}"); done; \
if [ $${#missing[@]} -gt 0 ]; then \
	if ! command -v apt-get >/dev/null || [ "$$(id -u)" != 0 ]; then \
		echo "make: install these first (on Debian, root's make does): $${missing[*]//,/ }" >&2; exit 1; \
	fi; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get update -q; \
	apt-get install -q -y --no-install-recommends $${missing[*]//,/ }; \
fi
endef
# zstd and lz4, for MCAP, are C; without the frame gate, which is BPF, video, which is libvpx's, and sound, libopus', taut builds all the same.
BUILD_NEEDS := cc:gcc,libc6-dev clang:clang /usr/include/opus/opus.h:libopus-dev /usr/include/vpx/vpx_encoder.h:libvpx-dev
TEST_NEEDS := $(BUILD_NEEDS) tshark:tshark jsonschema:python3-jsonschema /usr/include/usrsctp.h:libusrsctp-dev ffmpeg:ffmpeg

# Clippy is a compiler: what cargo builds of the workspace by it is linted, in one pass, as by `cargo clippy -- -D warnings`.
CLIPPY = CLIPPY_DRIVER="$$(rustc --print sysroot)/bin/clippy-driver" CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

build: ## Build the taut command: target/release/taut
	$(call need,$(BUILD_NEEDS))
	cargo build --release --locked -p taut-cli

demo: ## Build the lab alone, simulate one session on a shared link, write the report to out/demo
	$(call need,cc:gcc,libc6-dev)
	cargo build --profile demo --locked -p taut-cli --no-default-features
	"$(DEMO_TAUT)" run $(DEMO) --out out/demo
	@echo "open out/demo/report.html in a browser; $(DEMO_TAUT) replay out/demo/run.json runs it again, byte for byte"

test: ## All that CI runs: lint, tests, doc tests, links and examples in the documentation, the fuzz corpus
	$(call need,$(TEST_NEEDS))
	@# An independent QUIC peer, if it can be had; the tests say when it is missing.
	@test -x "$(INTEROP)/bin/python" && "$(INTEROP)/bin/python" -c 'import aioquic' 2>/dev/null || \
		{ python3 -m venv "$(INTEROP)" && "$(INTEROP)/bin/pip" install -q aioquic==1.7.2; } || \
		echo "make: aioquic could not be installed (python3-venv and a network are needed): QUIC is not tested with it" >&2
	@# All is linted while it is compiled, but for what builds with other features.
	$(CLIPPY) RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/.ci/rustc TAUT_BESIDE="$(MAKE) --no-print-directory lint TESTS=later" \
		.ci/tests --workspace --features taut/stream
	.ci/docs
	.ci/stats
	@echo "make test: all is well"

test-long: ## The whole of what `make test` takes a slice of: every seed, network and combination; minutes
	$(call need,$(TEST_NEEDS))
	$(CLIPPY) RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/.ci/rustc cargo test --locked --workspace --features taut/stream --lib --tests -- --ignored at_length

test-edges: ## Tests of what `make test` leaves out: the Python package, from its wheel, H.264, GStreamer, the bridge to ROS 2, and the console in a browser; minutes
	$(call need,cc:gcc,libc6-dev)
	.ci/edges

wheel: ## Build the Python package with the taut command: out/taut-*.whl
	$(call need,$(BUILD_NEEDS))
	packaging/build wheel x86_64

packages: ## Debian packages and wheels, for x86_64 and aarch64, in out/; installs the first on a bare Debian in a folder (as root)
	$(call need,$(BUILD_NEEDS))
	packaging/build && packaging/check || [ $$? = 77 ]

ros2: ## Build the bridge to ROS 2: target/ros2/release/taut-ros2
	$(call need,$(BUILD_NEEDS))
	cd ros2 && CARGO_TARGET_DIR="$(CARGO_TARGET_DIR)/ros2" cargo build --release --locked

# Tests are linted while they are compiled, by `.ci/rustc`.
lint: ## Format, clippy, API documentation, licences; all without warnings
	$(call need,$(BUILD_NEEDS))
	cargo fmt --all --check
ifndef TESTS
	cargo clippy --workspace --all-targets --features taut/stream --locked -- -D warnings
	@# What `make demo` builds.
	cargo clippy -p taut-cli --no-default-features --locked -- -D warnings
	@# The library without sockets, for a loop of one's own.
	cargo clippy -p taut --no-default-features --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --features taut/stream --locked
endif
	.ci/licences
	.ci/package

bench: ## Measure the speed of the hot paths, then of real sockets; see docs/performance.md
	$(call need,$(BUILD_NEEDS))
	cargo run --release --locked -p taut-benches
	cargo run --release --locked -p taut-benches --bin latency

sweep: build ## All experiments, 20 seeds each, to out/sweep (SEEDS=1..3 and SCENARIOS=… for fewer)
	@for scenario in $(SCENARIOS); do \
		name=$${scenario#scenarios/}; out=out/sweep/$${name%.toml}; mkdir -p "$$out"; \
		echo "== $$scenario"; \
		"$(TAUT)" run "$$scenario" --seeds $(SEEDS) --out "$$out" | tee "$$out.txt"; \
	done

# A scene that turns, with noise, as libvpx encodes it in real time. The same bytes with the same ffmpeg: one thread, and a speed below 0, for
# above it libvpx chooses one by how busy the machine is.
TRACES := out/traces
SCENE := testsrc2=size=480x360:rate=60:duration=241,noise=alls=6:allf=t:all_seed=1,rotate=a=0.3*sin(t*1.3):c=gray
$(TRACES)/video.ivf:
	$(call need,ffmpeg:ffmpeg)
	@mkdir -p "$(@D)"
	@echo "make: encodes 241 s of video, a minute or two"
	ffmpeg -v error -nostdin -y -filter_threads 1 -f lavfi -i "$(SCENE)" -threads 1 -c:v libvpx -deadline realtime -cpu-used -8 \
		-b:v 1400k -g 240 -pix_fmt yuv420p -fflags +bitexact -flags:v +bitexact -f ivf "$@.partial"
	@mv "$@.partial" "$@"

traces: build $(TRACES)/video.ivf ## Video, force and commands of 241 s as pcap, as many packets as the source's recordings: out/traces
	"$(TAUT)" trace video $(TRACES)/video.ivf $(TRACES)/video.pcap --packets 43715
	"$(TAUT)" trace device follower $(TRACES)/haptic.pcap --packets 80075
	"$(TAUT)" trace device leader $(TRACES)/control.pcap --packets 120851
	@echo "the source, each over 241 s: video 43715 packets, haptic 80075, control 120851"

evidence: build ## Measure anew what `taut recommend` rests on: thousands of runs, minutes
	"$(TAUT)" evidence $(sort $(wildcard scenarios/recommend/*.toml)) --seeds 1..3 > "$(CARGO_TARGET_DIR)/evidence.json"
	cp "$(CARGO_TARGET_DIR)/evidence.json" crates/advise/evidence/transports.json
	"$(TAUT)" evidence scenarios/two-5g-links.toml --seeds 1..3 > "$(CARGO_TARGET_DIR)/paths.json"
	cp "$(CARGO_TARGET_DIR)/paths.json" crates/advise/evidence/paths.json
	"$(TAUT)" evidence scenarios/two-measured-5g-links.toml --seeds 1..5 > "$(CARGO_TARGET_DIR)/paths.json"
	cp "$(CARGO_TARGET_DIR)/paths.json" crates/advise/evidence/paths-measured.json
	cargo run --release --locked -p taut-benches --bin latency -- sessions --json > "$(CARGO_TARGET_DIR)/resources.json"
	cp "$(CARGO_TARGET_DIR)/resources.json" crates/advise/evidence/resources.json
	@echo "commit crates/advise/evidence/*.json; taut must be built anew to have it"

# make tables PAGES=docs/experiments/etp.md
PAGES ?= $(sort $(wildcard docs/experiments/*.md docs/experiments/tables/*.md))
tables: build ## What the book prints beside what the same commands give today: an hour or two (PAGES=docs/… for some of it, WRITE=1 to put it there)
	python3 stats/tables.py $(PAGES) --taut "$(TAUT)" --keep "$(CARGO_TARGET_DIR)/tables" $(if $(WRITE),--write)

# Half a gigabyte of libraries, in target/: not for `make test`.
$(STATS_VENV)/ready: stats/requirements.txt
	$(call need,python3:python3)
	@python3 -c 'import ensurepip' 2>/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -q -y python3-venv; } \
		|| { echo "make: install python3-venv first" >&2; exit 1; }
	python3 -m venv "$(STATS_VENV)"
	"$(STATS_VENV)/bin/pip" install -q -r stats/requirements.txt
	touch $@

stats: build $(STATS_VENV)/ready ## Statistics of a campaign: by default the transports, five seeds (CAMPAIGN=folder for another)
	.ci/stats
	@[ "$(CAMPAIGN)" != out/transports ] || [ -e "$(CAMPAIGN)/campaign.json" ] || "$(TAUT)" run scenarios/transports.toml --seeds 1..5 --out "$(CAMPAIGN)" > /dev/null
	"$(STATS_VENV)/bin/python" stats/analyse.py "$(CAMPAIGN)"

faults: ## Ten million states under random faults, over every transport; a failure prints the command that replays it
	cargo test --release --locked -p taut-session --test faults -- --ignored --nocapture

oracle: build ## Compare with Linux itself, in virtual time: builds a kernel once, then a quarter of an hour on two idle cores; see oracle/README.md
	TAUT="$(TAUT)" oracle/compare

real: build ## Five sessions simulated, over real sockets and in a kernel of its own, side by side (as root): docs/experiments/tables/real.md
	oracle/kernel/build || { status=$$?; [ "$$status" = 77 ] && echo "make: goes on without the kernel" >&2; }
	python3 stats/worlds.py "$(TAUT)" > "$(CARGO_TARGET_DIR)/worlds.md"
	cp "$(CARGO_TARGET_DIR)/worlds.md" docs/experiments/tables/real.md
	.ci/book write

router: build ## taut for an aarch64 router, checked under qemu against this machine's: target/router/taut (as root)
	oracle/router/build "$(TAUT)"

gate: build ## The frame gate as its source has it, and by XDP before Linux's queues: docs/experiments/tables/frame-gate-full.md (half an hour)
	oracle/kernel/build || { status=$$?; [ "$$status" = 77 ] && echo "make: goes on without the kernel" >&2; }
	for name in aimd dyna; do "$(TAUT)" run scenarios/frame-gate/$$name.toml --seeds 1..2 --quiet --out out/frame-gate/$$name > /dev/null; done
	for name in queues fifo; do "$(TAUT)" run scenarios/frame-gate/$$name.toml --seeds 1..3 --quiet --out out/frame-gate/$$name > /dev/null; done
	@# The corners of the sweep.
	[ ! -x "$(CARGO_TARGET_DIR)/oracle/linux" ] || for rate in 0.5 2.5; do \
		"$(TAUT)" run scenarios/frame-gate/queues.toml --kernel --json --set duration=65s --set drain=2s \
			--only "bandwidth=$$rate Mbit/s,gate=no gate,gate=aimd3 every 100 ms,gate=dyna3 every second,gate=deadline" > out/frame-gate/kernel-$$rate.json; \
	done
	python3 stats/frame_gate.py out/frame-gate > "$(CARGO_TARGET_DIR)/frame-gate.md"
	cp "$(CARGO_TARGET_DIR)/frame-gate.md" docs/experiments/tables/frame-gate-full.md
	.ci/book write

fuzz: ## Fuzz every parser for a minute (needs a nightly toolchain and cargo-fuzz; SECONDS_EACH=600 for longer)
	$(call need,$(BUILD_NEEDS) c++:g++)
	@for target in $(FUZZ_TARGETS); do \
		echo "== $$target"; \
		CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
			cargo +nightly fuzz run --features targets $$target -- -max_total_time=$(SECONDS_EACH) -max_len=4096; \
	done

doc: ## Build the API documentation: target/doc/taut/index.html
	cargo doc --workspace --no-deps --features taut/stream --locked

book: ## Build the documentation as one book with a search: target/book/index.html
	@command -v mdbook >/dev/null || { echo "make: cargo install --locked mdbook" >&2; exit 1; }
	mdbook build --dest-dir "$(CARGO_TARGET_DIR)/book"

deny: ## Check licences, bans and sources by cargo-deny, and advisories, which fail it
	@command -v cargo-deny >/dev/null || { echo "make: cargo install --locked cargo-deny" >&2; exit 1; }
	cargo deny --locked check licenses bans sources
	@# To have no database is not to have no advisories: the two are told apart. One that was fetched before will do.
	@if cargo deny --locked fetch db; then cargo deny --locked check --disable-fetch advisories; \
	elif compgen -G "$${CARGO_HOME:-$$HOME/.cargo}/advisory-db*/*" >/dev/null; then \
		echo "make: the database of advisories could not be brought up to date; an older one is used" >&2; \
		cargo deny --locked check --disable-fetch advisories; \
	else echo "skipped: advisories are NOT checked, their database could not be fetched" >&2; fi

clean: ## Remove what was built and written: target, out
	rm -rf "$(CARGO_TARGET_DIR)" out
