# Every target sets up what it needs: a virtual environment in .venv, made again when pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := fixtures/traces/loader.baseline.bare.json.gz

.DEFAULT_GOAL := help
.PHONY: help demo test fuzz lint types docs docs-check golden accuracy clean

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "traceengine needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11" >&2; exit 1; }
	@echo "setting up $(VENV)" >&2
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY) ## the verdict of a stored trace
	@$(BIN)/traceengine analyze $(DEMO)

test: $(READY) ## all tests, on all cores
	@$(BIN)/python -m pytest -n auto --dist worksteal

fuzz: $(READY) ## the random tests with new examples
	@HYPOTHESIS_PROFILE=new $(BIN)/python -m pytest $$(grep -rl 'from hypothesis' tests --include='test_*.py')

lint: $(READY) ## ruff
	@$(BIN)/ruff check .

types: $(READY) ## mypy, strict
	@$(BIN)/mypy

docs: $(READY) ## write docs/reference
	@$(BIN)/python -m traceengine.reference docs/reference

docs-check: $(READY) ## fail when docs/reference is stale
	@$(BIN)/python -m traceengine.reference docs/reference --check

golden: $(READY) ## record the expected verdicts of fixtures/traces again; review the diff
	@$(BIN)/python fixtures/golden.py

accuracy: $(READY) ## compare with simulated truth and measured pairs again; writes docs/accuracy.md
	@$(BIN)/python benchmarks/accuracy.py --out docs/accuracy.md

clean: ## remove what the targets made
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
