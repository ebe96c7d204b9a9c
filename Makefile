# Needs Python 3.11+ and make; everything else is installed into .venv from the locks, by hash.
# All paths are relative: the clone may lie under a path with spaces.
PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
UV := $(BIN)/uv
INSTALL := $(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
SYNC := $(UV) pip sync --quiet --python $(BIN)/python --require-hashes locks/build.txt
# Codecs and the engine's hot path are compiled where a compiler is; else one line says that slower ones are used. With CI
# set that is an error.
CODECS := $(BIN)/python -m schemas.codec.build schemas.codec.events streams.agents.state.plan streams.agents.aliases.plan streams.agents.forgotten.plan streams.agents.library_state.plan
NATIVE := $(BIN)/python -m streams.engine.build
NATIVE_SOURCES := $(wildcard streams/engine/*.py)
CODEC_SOURCES := $(wildcard schemas/*.py schemas/avro/* schemas/codec/*.py* streams/domain/state.py $(addprefix streams/agents/state/*.,py avsc) $(addprefix streams/agents/aliases/*.,py avsc) $(addprefix streams/agents/forgotten/*.,py avsc) streams/domain/library/rows.py $(addprefix streams/agents/library_state/*.,py avsc))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo up test test-fast faults fuzz lint types bench ci secrets clean lock

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: .venv/.dev ## Install everything that running, testing and checking needs

demo: .venv/.run ## Start the whole thing here, play a household through it, show what came of it
	@$(BIN)/python -m streams.cli demo $(ARGS)

up: .venv/.run ## Start the whole thing here and keep it running; Ctrl-C stops it
	@$(BIN)/python -m streams.cli up $(ARGS)

test: .venv/.dev ## Run all tests, with the real services (they start by themselves)
	@$(BIN)/python -m pytest $(ARGS)

test-fast: .venv/.dev ## Run the tests that need no services
	@$(BIN)/python -m pytest -m "not services and not faults" $(ARGS)

faults: .venv/.dev ## Run the engine's fault programme, and all tests that kill, freeze and stop processes
	@$(BIN)/python -m tests.faults.engine
	@$(BIN)/python -m tests.faults.engine --brokers 3
	@PLAYHEAD_FAULT_REPORTS=50000 PLAYHEAD_FAULT_COUNT=14 PLAYHEAD_DOOR_KILLS=20 PLAYHEAD_SCANNER_KILLS=20 PLAYHEAD_POSTGRES_AWAY_S=30 ENGINE_FAULTS_SCALE=3 \
		$(BIN)/python -m pytest -m "faults or long" -s $(ARGS)

fuzz: .venv/.dev ## Fuzz the parsers, 20 s for each format (ARGS="--seconds 600": longer)
	@$(BIN)/python -m tests.fuzz $(ARGS)

lint: .venv/.dev ## Check style, format and who imports whom
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/lint-imports --no-logo

types: .venv/.dev ## Check types, strictly, in code and tests
	@$(BIN)/python -m mypy

bench: .venv/.dev ## Measure speed; the last line is JSON
	@$(BIN)/python -m tests.benchmarks.engine_bench $(ARGS)

ci: lint types test ## What continuous integration checks

secrets: ## Make the secrets that docker-compose.yml needs, once
	@PYTHON="$(PYTHON)" docker/make-secrets

clean: ## Remove caches and the installed environment; data stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	find schemas streams projections tests -name __pycache__ -type d -prune -exec rm -rf {} +
	find schemas streams -name '_compiled_*' -type f -delete
	find streams -name '_native_*' -type d -prune -exec rm -rf {} +

lock: .venv/.base ## Resolve the dependencies of pyproject.toml into locks/ again (UPGRADE=1: to newer versions)
	$(UV) pip compile pyproject.toml --extra local --group dev $(if $(UPGRADE),--upgrade) $(LOCK) -o locks/dev.txt
	$(UV) pip compile pyproject.toml --extra local -c locks/dev.txt $(LOCK) -o locks/run.txt
	$(UV) pip compile pyproject.toml -c locks/dev.txt $(LOCK) -o locks/image.txt
	$(UV) pip compile --group build -c locks/dev.txt $(LOCK) -o locks/build.txt

LOCK := --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

# The installer itself, by hash, with pip as it comes with Python.
.venv/.base: locks/build.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed. Try: make PYTHON=python3.12 (or newer)"; exit 1; }
	@echo "Preparing .venv ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/build.txt
	@touch $@

# What tests need includes what running needs: once that is there, only that is kept up to date.
.venv/.run: .venv/.base locks/run.txt pyproject.toml $(CODEC_SOURCES) $(NATIVE_SOURCES)
	@echo "Installing dependencies ..."
	@if [ -e .venv/.dev ]; then $(SYNC) locks/dev.txt; else $(SYNC) locks/run.txt; fi
	@$(INSTALL)
	@$(CODECS)
	@$(NATIVE)
	@if [ -e .venv/.dev ]; then touch .venv/.dev; fi
	@touch $@

.venv/.dev: .venv/.base locks/dev.txt pyproject.toml $(CODEC_SOURCES) $(NATIVE_SOURCES)
	@echo "Installing dependencies ..."
	@$(SYNC) locks/dev.txt
	@$(INSTALL)
	@$(CODECS)
	@$(NATIVE)
	@touch .venv/.run $@
