# Needs python3 with venv, and make. Everything else goes into .venv; dependencies are pinned by hash.
# A few tests need more, such as a browser: `make test` skips them where it is missing, `make test-all` installs it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Tests at once: more than processors, since many wait for processes and clocks.
WORKERS ?= 4

.PHONY: help run playground test test-all thorough lint check format docs coverage bench mutants lock clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /  make \1 — /p' Makefile

run: $(VENV)/core.stamp ## start the gateway on its embedded defaults
	@exec $(BIN)/hermes gateway run

playground: $(VENV)/core.stamp ## try it with three phones in the browser
	@exec $(BIN)/hermes playground $(ARGS)

test: $(VENV)/dev.stamp ## run the tests; what a missing program needs is skipped
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

# Installs the programs that some tests need (apt, as root), public MCP servers (below .venv), and Ray and what trains
# models (a gigabyte). A test that is skipped has shown nothing: here none may be.
test-all: $(VENV)/research.stamp ## install what tests need (apt, as root) and skip none
	$(BIN)/python -m tests.programs
	$(MAKE) test ARGS="--no-skips $(ARGS)"

# Every row of the long tables, such as kills at each step on each platform: half an hour.
thorough: $(VENV)/dev.stamp ## run every row of the long tables: half an hour
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --thorough $(ARGS)

lint: $(VENV)/dev.stamp ## format, lint, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint ## lint, then the tests
	$(MAKE) test

format: $(VENV)/dev.stamp ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# A test fails when these are out of date.
docs: $(VENV)/dev.stamp ## write the references that are generated from the code
	$(BIN)/python -m tests.reference
	$(BIN)/python -m hermes_cli.reference

coverage: $(VENV)/dev.stamp ## run the tests and show what they did not reach
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n $(WORKERS) --dist worksteal $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

bench: $(VENV)/dev.stamp ## measure speed and size against a floor
	$(BIN)/python -m tests.bench $(ARGS)

# Small faults put into a module, one at a time: does a test notice? ARGS="gateway.policies.access gateway.policies.pairing"
mutants: $(VENV)/dev.stamp ## put small faults into a module: does a test notice?
	$(BIN)/python -m tests.mutants $(ARGS)

# Only for whoever changes dependencies; asks the package index.
lock: $(VENV)/dev.stamp ## compile the lock files; asks the package index
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade $(LOCK_FLAGS) pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --upgrade $(LOCK_FLAGS) pyproject.toml $(addprefix --extra ,$(LIGHT_EXTRAS)) --extra dev -o requirements-dev.lock
	$(BIN)/uv pip compile --quiet --upgrade $(LOCK_FLAGS) pyproject.toml $(addprefix --extra ,$(LIGHT_EXTRAS)) -o requirements-extras.lock
	$(BIN)/uv pip compile --quiet --upgrade $(LOCK_FLAGS) -c requirements-dev.lock pyproject.toml --extra batch --extra rl -o requirements-research.lock
	sed -n 's/^requires = \["\(.*\)"\]$$/\1/p' pyproject.toml | $(BIN)/uv pip compile --quiet $(LOCK_FLAGS) - -o requirements-build.lock

LIGHT_EXTRAS := web browser voice mcp acp
LOCK_FLAGS := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header

clean: ## remove what make made
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/core.stamp: requirements.lock requirements-build.lock pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-build.lock -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/dev.stamp: requirements-dev.lock $(VENV)/core.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

$(VENV)/research.stamp: requirements-research.lock $(VENV)/dev.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-research.lock
	@touch $@
