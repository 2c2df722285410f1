.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
MODEL ?= embedded/smollm2-135m
export UV_PYTHON_DOWNLOADS := never
export UV_LINK_MODE := copy
export VIRTUAL_ENV := $(CURDIR)/.venv

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: .venv/.installed ## install exactly requirements.lock into .venv

.venv/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Python 3.11 or newer is needed, {sys.executable} is {sys.version.split()[0]}: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > .venv/uv.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r .venv/uv.txt
	$(BIN)/uv pip sync --quiet --require-hashes --compile-bytecode requirements.lock
	$(BIN)/uv pip install --quiet --offline --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup ## evaluate MODEL (default: the embedded one) on the four Japanese benchmarks
	$(BIN)/run-evals --model $(MODEL)

test: setup lint types imports pytest ## everything that must be green

lint: setup ## ruff: style and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: setup ## mypy, strict
	$(BIN)/mypy

imports: setup ## the direction of imports
	$(BIN)/lint-imports

pytest: setup ## the tests (ARGS="-m unit" for some)
	$(BIN)/pytest --numprocesses auto --dist worksteal $(ARGS)

acceptance: setup ## kills, faults, hostile texts and simulations in full size, before work is called done
	SHABERI_ACCEPTANCE=1 $(BIN)/pytest --numprocesses auto --dist worksteal --timeout 3600 -m acceptance $(ARGS)

format: setup ## let ruff mend style and formatting
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: setup ## resolve pyproject.toml again into requirements.lock
	$(BIN)/uv pip compile pyproject.toml --group dev --override overrides.txt --generate-hashes --universal \
	  --python-version 3.11 --no-header --upgrade --quiet --output-file requirements.lock

docs: setup ## write docs/reference.md anew
	$(BIN)/python docs/reference.py

notebooks: setup ## open the notebooks on this lake
	@$(BIN)/python -c 'import marimo, altair' 2> /dev/null || $(BIN)/uv pip install --quiet 'marimo>=0.25' 'altair>=6.3'
	$(BIN)/marimo edit notebooks

ui: setup ## open the Dagster UI on this lake
	$(BIN)/shaberi ui

clean: ## remove the environment and caches, never the lake
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.PHONY: help setup demo test lint types imports pytest acceptance format lock docs notebooks ui clean
