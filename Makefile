# SPDX-License-Identifier: Apache-2.0
# The front door. `make demo` and `make test` do all set-up themselves; scripts/setup.sh says how.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.SUFFIXES:
MAKEFLAGS += --no-print-directory

python := .venv/bin/python
stamps := .venv/.stamps
jobs := $(shell nproc 2>/dev/null || echo 2)
# Folders are listed too: their time changes when a file is added or removed.
sources := CMakeLists.txt $(shell find src bindings python cmake -not -path '*/__pycache__*')
# A sanitized program may not start where the kernel spreads addresses widely.
fixed_addresses = $(shell setarch $$(uname -m) -R true 2>/dev/null && echo setarch $$(uname -m) -R)
wheel := build/wheel/.stamp
# An environment whose Python is gone is of no use.
$(shell [ -x $(python) ] || rm -rf .venv)

FUZZ_SECONDS ?= 10

.PHONY: help demo test bare build wheel wheel-test wheel-dist-test wheel-old-root bench bench-engine bench-peers bench-python bench-rivals
.PHONY: lint sanitize fuzz soak test-gpu
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1@\2/p' Makefile | awk -F@ '{ printf "make %-15s %s\n", $$1, $$2 }'

demo: $(stamps)/package $(stamps)/plot-tools ## make photos, read them from slow storage, write a page about it; plan a large job
	@scripts/demo.sh

# In this order; after the set-up each step runs whatever became of those before it.
test_steps := $(stamps)/dev-tools build-dev test-dev $(stamps)/package build-wheel test-python lint \
  build-asan test-asan build-tsan test-tsan fuzz

test: ## everything: C++ and Python tests, lint, sanitizers, fuzzers
	@mkdir -p build && rm -f build/test-*.log
	@$(MAKE) $(stamps)/venv
	@# At once, because either waits for others' machines. What failed is tried again below.
	@$(MAKE) $(stamps)/dev-tools & $(MAKE) system-tests && { wait $$! || true; }; \
	  echo "$$SECONDS packages" >build/test-times.log
	@status=0; for step in $(test_steps); do \
	  SECONDS=0; $(MAKE) $$step || status=1; echo "$$SECONDS $$step" >>build/test-times.log; done; \
	  scripts/test-summary.sh $$status

bare: ## demo and test in a new Debian 12 that has nothing yet, with the times they took (needs root)
	@scripts/bare.sh

build: system-tests build-dev $(stamps)/package ## the dev build in build/dev, and the package in .venv

wheel: system-wheel $(stamps)/venv ## dist/: a wheel for each Python from 3.11 on that is found, and the sdist
	@scripts/wheel/build.sh
	@scripts/wheel/sdist.sh

wheel-test: $(wheel) $(stamps)/dev-tools ## the wheel of this Python, in an environment with nothing else
	@$(python) -m pytest tests/install/test_wheel.py

wheel-dist-test: wheel ## every wheel and the sdist, installed by pip into environments with nothing else
	@scripts/wheel/dist_test.sh

wheel-old-root: $(wheel) ## the same in an older system, made with mmdebstrap (needs root)
	@scripts/wheel/old_root.sh

bench: system-tests build-release ## build as shipped and run every benchmark
	@benches=$$(find build/release/bench -name '*_bench' -type f -executable | sort); \
	  [ -n "$$benches" ] || { echo "[bench] no program *_bench in build/release/bench" >&2; exit 1; }; \
	  for bench in $$benches; do echo "[bench] $$bench"; "$$bench"; done

bench-engine: system-tests build-release $(stamps)/package $(stamps)/dev-tools ## the engine against torch on slow storage
	@$(python) bench/engine/run.py --out build/bench $(EXPERIMENTS)

bench-rivals: system-tests build-release $(stamps)/package $(stamps)/dev-tools ## foreload beside other loaders, each in an environment of its own
	@$(python) bench/rivals/install.py
	@$(python) bench/rivals/run.py --out build/bench-rivals --picture docs/rivals.svg \
	  --document docs/performance.md $(EXPERIMENTS)

bench-peers: system-tests build-release $(stamps)/package $(stamps)/dev-tools ## ranks in network namespaces as one cache (needs root)
	@$(python) bench/peers/run.py --out build/bench $(EXPERIMENTS)

bench-python: $(stamps)/package $(stamps)/dev-tools ## data sets with __getitem__ only, against torch
	@$(python) bench/python_datasets/run.py --out build/bench $(EXPERIMENTS)

lint: $(stamps)/dev-tools ## clang-format, ruff, mypy
	@echo "[lint] clang-format"
	@find src bindings tests bench examples -name '*.h' -o -name '*.cc' | \
	  xargs -r .venv/bin/clang-format --dry-run -Werror
	@echo "[lint] ruff"
	@$(python) -m ruff check --quiet .
	@$(python) -m ruff format --quiet --check .
	@echo "[lint] mypy"
	@$(python) -m mypy

sanitize: test-asan test-tsan ## C++ tests under the address, undefined-behaviour and thread sanitizers

fuzz: system-tests ## a short run of the fuzzers; FUZZ_SECONDS=600 for a long one
	@tests/fuzz.sh $(FUZZ_SECONDS)

test-gpu: $(stamps)/package $(stamps)/dev-tools ## the tests that need a GPU, which `make test` skips without one
	@FORELOAD_NEEDS_GPU=1 $(python) -m pytest tests/python/test_gpu.py

soak: build $(stamps)/dev-tools ## the long tests, C++ and Python
	@ctest --preset dev -L soak --no-tests=ignore
	@$(MAKE) fuzz FUZZ_SECONDS=1200
	@$(python) -m pytest -m soak tests/python || [ $$? = 5 ]  # 5: there are none

# From here on: steps that the targets above are made of.

presets := dev asan tsan release
.PHONY: system system-tests system-wheel build-wheel test-python $(presets:%=build-%) $(presets:%=test-%)
system:
	@scripts/setup.sh system
system-tests:
	@scripts/setup.sh system tests
system-wheel:
	@scripts/setup.sh system wheel

$(stamps)/venv: | system
	@scripts/setup.sh venv
$(stamps)/build-tools: pyproject.toml $(stamps)/venv
	@scripts/setup.sh build-tools
$(stamps)/plot-tools: $(stamps)/venv
	@scripts/setup.sh plot-tools
$(stamps)/dev-tools: requirements-dev.txt $(stamps)/venv
	@scripts/setup.sh dev-tools
$(stamps)/package: $(stamps)/build-tools $(sources)
	@scripts/setup.sh package

build-wheel: $(wheel)
$(wheel): $(sources) pyproject.toml $(wildcard scripts/wheel/*) $(stamps)/venv | system-wheel
	@FORELOAD_WHEEL_PYTHONS=$(python) scripts/wheel/build.sh
	@touch $@

$(presets:%=build/%/build.ninja): build/%/build.ninja: CMakePresets.json | system-tests
	@echo "[build] configuring build/$*"
	@cmake --preset $* --log-level=NOTICE
	@touch $@

$(presets:%=build-%): build-%: build/%/build.ninja
	@echo "[build] compiling build/$*"
	@$(if $(filter asan tsan,$*),$(fixed_addresses)) \
	  cmake --build --preset $* $(if $(filter asan tsan,$*),--target all_tests)

$(presets:%=test-%): test-%: build-%
	@echo "[test] C++, build/$*"
	@$(if $(filter asan tsan,$*),$(fixed_addresses)) \
	  ctest --preset $* -LE soak -j $(jobs) 2>&1 | tee build/test-$*.log

test-python: $(stamps)/dev-tools
	@echo "[test] Python"
	@$(python) -m pytest -m 'not soak' tests/python tests/conformance tests/tidy tests/install tests/bench 2>&1 | tee build/test-python.log
