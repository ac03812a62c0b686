# Everything a developer types; `make help` lists it. The work itself is in scripts/.
# Steps run one after the other: cargo and the emulator use all processors by themselves.
.POSIX:
.NOTPARALLEL:

CARGO = cargo
CC = gcc
CXX = g++
EXAMPLE_FLAGS = -O2 -g -Wall -Wextra -Werror
STEP = scripts/step
PREFIX = /usr/local
BINARY = target/release/pagewise
LIBRARIES = libpagewise_runtime.so libpagewise_guard.so
EXAMPLES = build/examples/mincostflow build/examples/sweep build/examples/matmul build/examples/pattern \
	build/examples/hotcold build/examples/churn build/examples/hinted build/examples/lattice build/examples/bugs \
	build/examples/scanserve build/examples/probe build/examples/scan build/examples/graph \
	build/examples/rows build/examples/list

# The paths below hold whatever the caller's environment says.
export CARGO_TARGET_DIR = $(CURDIR)/target

.PHONY: help setup setup-bench build install examples demo demo-io gallery test test-kernels test-aarch64 bench bench-io bench-hugepages bench-hugepages-more clean

help:
	@echo 'make setup         install the system packages that are missing (Debian, Ubuntu)'
	@echo 'make setup-bench   those that the measurements in bench/ run and compare with, too'
	@echo 'make build         $(BINARY) and the preload libraries beside it'
	@echo 'make install       all of it, with headers, manual pages and completions, into PREFIX ($(PREFIX)), below DESTDIR'
	@echo 'make examples      the example programs, into build/examples'
	@echo 'make demo          all of that, then record, report, plan and compare an example under memory pressure'
	@echo 'make demo-io       the same of a scanner that takes the page cache from a server beside it'
	@echo 'make gallery       record eight programs under memory pressure, and write docs/gallery.md'
	@echo 'make test          what a change must pass; needs root or sudo for the packages and the sensors'
	@echo 'make test-kernels  the recorder on other kernels, emulated'
	@echo 'make test-aarch64  the guard on another processor, emulated'
	@echo 'make bench         what recording costs'
	@echo 'make bench-io      what calls on files cost to record, and what hints for them bring: some two hours'
	@echo 'make bench-hugepages  how soon programs recover, how fairly, and bloat: some seven hours'
	@echo 'make bench-hugepages-more  their faults, cost, guests, plans, an hour of races: some five hours'
	@echo 'make clean         remove target and build'

setup:
	@$(STEP) setup scripts/setup

setup-bench:
	@$(STEP) setup scripts/setup --bench

# The libraries apart: a build of the workspace would leak features of `std` into them, and they need panic=abort.
build:
	@$(STEP) 'build pagewise' $(CARGO) build --release -p pagewise
	@$(STEP) 'build the preload libraries' $(CARGO) build --profile preload -p pagewise-runtime -p pagewise-guard
	@install -m 755 $(LIBRARIES:%=target/preload/%) target/release

# The libraries stay beside the executable, which looks for them there.
install: build
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib/pagewise $(DESTDIR)$(PREFIX)/share/man/man1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d $(DESTDIR)$(PREFIX)/share/pagewise \
		$(DESTDIR)$(PREFIX)/lib/systemd/system
	install -m 644 include/*.h $(DESTDIR)$(PREFIX)/include
	install -m 644 etc/hugepages.toml $(DESTDIR)$(PREFIX)/share/pagewise
	sed 's|/usr/local|$(PREFIX)|' etc/pagewise-hugepages.service >$(DESTDIR)$(PREFIX)/lib/systemd/system/pagewise-hugepages.service
	install -m 755 $(BINARY) $(LIBRARIES:%=target/release/%) $(DESTDIR)$(PREFIX)/lib/pagewise
	ln -sf ../lib/pagewise/pagewise $(DESTDIR)$(PREFIX)/bin/pagewise
	$(BINARY) man $(DESTDIR)$(PREFIX)/share/man/man1
	$(BINARY) completions bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/pagewise
	$(BINARY) completions zsh >$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_pagewise
	$(BINARY) completions fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/pagewise.fish

examples: $(EXAMPLES)

build/examples/mincostflow: examples/mincostflow.cpp
	@mkdir -p build/examples
	@$(STEP) 'build $@' $(CXX) -std=c++17 $(EXAMPLE_FLAGS) -o $@ examples/mincostflow.cpp -llemon

build/examples/scanserve: examples/scanserve.c
	@mkdir -p build/examples
	@$(STEP) 'build $@' $(CC) -std=c11 -D_GNU_SOURCE $(EXAMPLE_FLAGS) -pthread -o $@ examples/scanserve.c

build/examples/sweep: examples/sweep.c
	@mkdir -p build/examples
	@$(STEP) 'build $@' $(CC) -std=c11 -D_GNU_SOURCE $(EXAMPLE_FLAGS) -o $@ examples/sweep.c

build/examples/matmul: examples/matmul.c
	@mkdir -p build/examples
	@$(STEP) 'build $@' $(CC) -std=c11 -D_GNU_SOURCE $(EXAMPLE_FLAGS) -o $@ examples/matmul.c

build/examples/pattern: examples/pattern.c
	@mkdir -p build/examples
	@$(STEP) 'build $@' $(CC) -std=c11 -D_GNU_SOURCE $(EXAMPLE_FLAGS) -o $@ examples/pattern.c

build/examples/hotcold: examples/hotcold.c
	@mkdir -p build/examples
	@$(STEP) 'build $@' $(CC) -std=c11 -D_GNU_SOURCE $(EXAMPLE_FLAGS) -o $@ examples/hotcold.c

build/examples/list: examples/list.c
	@mkdir -p build/examples
	@$(STEP) 'build $@' $(CC) -std=c11 -D_GNU_SOURCE $(EXAMPLE_FLAGS) -o $@ examples/list.c

build/examples/rows: examples/rows.c
	@mkdir -p build/examples
	@$(STEP) 'build $@' $(CC) -std=c11 -D_GNU_SOURCE $(EXAMPLE_FLAGS) -o $@ examples/rows.c

build/examples/churn: examples/churn.c
	@mkdir -p build/examples
	@$(STEP) 'build $@' $(CC) -std=c11 -D_GNU_SOURCE $(EXAMPLE_FLAGS) -o $@ examples/churn.c

build/examples/hinted: examples/hinted.c include/pagewise.h
	@mkdir -p build/examples
	@$(STEP) 'build $@' $(CC) -std=c11 -D_GNU_SOURCE $(EXAMPLE_FLAGS) -o $@ examples/hinted.c

build/examples/probe: examples/probe.c
	@mkdir -p build/examples
	@$(STEP) 'build $@' $(CC) -std=c11 -D_GNU_SOURCE $(EXAMPLE_FLAGS) -o $@ examples/probe.c

build/examples/scan: examples/scan.c
	@mkdir -p build/examples
	@$(STEP) 'build $@' $(CC) -std=c11 -D_GNU_SOURCE $(EXAMPLE_FLAGS) -o $@ examples/scan.c

build/examples/graph: examples/graph.c
	@mkdir -p build/examples
	@$(STEP) 'build $@' $(CC) -std=c11 -D_GNU_SOURCE $(EXAMPLE_FLAGS) -o $@ examples/graph.c

build/examples/lattice: examples/lattice.c
	@mkdir -p build/examples
	@$(STEP) 'build $@' $(CC) -std=c11 -D_GNU_SOURCE $(EXAMPLE_FLAGS) -o $@ examples/lattice.c -lm

# Its errors are meant, and warned of.
build/examples/bugs: examples/bugs.c
	@mkdir -p build/examples
	@$(STEP) 'build $@' $(CC) -std=c11 -D_GNU_SOURCE -O1 -g -w -o $@ examples/bugs.c

demo: setup build examples
	@$(STEP) demo scripts/demo

demo-io: setup build examples
	@$(STEP) demo-io scripts/demo-io

gallery: build examples
	@$(STEP) setup scripts/setup --gallery
	@$(STEP) gallery bench/gallery/run

# Cheap checks first. All in the dev profile, whose build scripts and macros they share: the release is what `make demo`
# builds.
test:
	@$(STEP) setup scripts/setup --tests
	@$(STEP) format $(CARGO) fmt --all --check
	@$(STEP) clippy $(CARGO) clippy --workspace --all-targets -- -D warnings
	@RUSTDOCFLAGS='-D warnings' $(STEP) doc $(CARGO) doc --workspace --no-deps
	@$(MAKE) examples
	@$(STEP) 'build the tests' $(CARGO) test --workspace --no-run
	@$(STEP) tests scripts/test-built

test-kernels: examples
	@$(STEP) kernels scripts/test-kernels

test-aarch64:
	@$(STEP) aarch64 scripts/test-aarch64

bench: build examples
	@$(STEP) 'build the storm' $(CARGO) build --release -p pagewise-collect --example storm_cost
	@$(STEP) bench bench/run

# With as much reading ahead as this machine does, and with what Linux does by default.
bench-io: build examples
	bench/io/run && bench/io/exact
	for kib in '' '--read-ahead 128'; do \
	    bench/io-hints/run $$kib && bench/io-hints/programs --fresh --pause-damon $$kib && bench/io-hints/graph $$kib || exit; done

# The first round of each is discarded. Rows go to a folder of their own, so that a summary is of this machine only.
bench_rows = build/bench-hugepages
bench-hugepages: build
	rm -rf $(bench_rows) && mkdir -p $(bench_rows)
	bench/hugepages/run --raw $(bench_rows)/run.jsonl --cells 2048-high-100,2048-spread-100,2048-low-100,4096-high-100,8192-high-100 --rounds 5 --warm
	bench/hugepages/run --raw $(bench_rows)/run.jsonl --cells 2048-high-10,4096-high-10,8192-high-10,2048-high-1 --rounds 5 --warm
	bench/hugepages/run --raw $(bench_rows)/run.jsonl --cells 4096-high-1,8192-high-1 --rounds 5 --warm --arms huge,base,hawkeye-g --beside
	bench/hugepages/run --raw $(bench_rows)/run-fragmented.jsonl --cells 2048-high-100 --rounds 5 --warm --fragmented
	bench/hugepages/fairness --raw $(bench_rows)/fairness.jsonl --rounds 5 --warm --seconds 45
	bench/hugepages/fairness --raw $(bench_rows)/fairness.jsonl --rounds 5 --warm --seconds 45 --cells two --fragmented
	bench/hugepages/bloat --raw $(bench_rows)/bloat.jsonl --rounds 5 --warm --keys 200000
	bench/hugepages/bloat --raw $(bench_rows)/bloat.jsonl --rounds 5 --warm --keys 200000 --fragmented --arms base,always,launched,ingens-50,ingens-90,recovered
	bench/hugepages/bloat --raw $(bench_rows)/bloat.jsonl --rounds 5 --warm --keys 200000 --delete 60 --arms base,always,managed,recovered
	bench/hugepages/bloat --raw $(bench_rows)/bloat.jsonl --rounds 6 --keys 200000 --key-bytes 10 --arms base,huge-limited

# What stands beside those three in docs/results-hugepages.md.
bench-hugepages-more: build
	rm -rf $(bench_rows)-more && mkdir -p $(bench_rows)-more
	bench/hugepages/faults --raw $(bench_rows)-more/faults.jsonl --rounds 5 --warm --millions 10
	bench/hugepages/faults --raw $(bench_rows)-more/faults-fragmented.jsonl --rounds 5 --warm --fragmented --cells touch,dense,redis
	bench/hugepages/cost --raw $(bench_rows)-more/cost.jsonl --rounds 6
	bench/hugepages/guest --raw $(bench_rows)-more/guest.jsonl --rounds 5 --warm
	bench/hugepages/promise --raw $(bench_rows)-more/promise.jsonl --rounds 5
	bench/hugepages/race --raw $(bench_rows)-more/race.jsonl --minutes 60
	bench/hugepages/policies

clean:
	rm -rf target build
