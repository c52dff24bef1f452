# make demo | serve | test | lint | format | bench | clean
# Each sets up what it needs in .venv, with Python's venv and pip alone. PYTHON=... names another interpreter.

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
CANDIDATES := $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python3.10 python

.PHONY: demo serve test lint format bench clean
.DELETE_ON_ERROR:

demo: $(VENV)/.demo
	@$(PY) -m dragoman.cli.demo

serve: $(VENV)/.demo
	@$(PY) -m dragoman serve

test: $(VENV)/.dev
	@$(PY) -m pytest

lint: $(VENV)/.dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-logo

format: $(VENV)/.dev
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: $(VENV)/.dev
	@$(PY) bench/run.py --record

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build

$(VENV)/.made:
	@for python in $(CANDIDATES); do \
	  if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; then \
	    echo "Making $(VENV) with $$($$python -c 'import sys; print(sys.executable, sys.version.split()[0])')"; \
	    $$python -m venv $(VENV) && touch $@ && exit 0 || exit 1; \
	  fi; \
	done; \
	echo "No Python 3.10 or newer with the venv module was found (tried: $(CANDIDATES))." >&2; \
	echo "Install one (on Debian and Ubuntu: apt-get install python3 python3-venv) or run: make PYTHON=/path/to/python" >&2; \
	exit 1

$(VENV)/.demo: pyproject.toml | $(VENV)/.made
	@echo "Installing dragoman with its embedded engine (about 60 MB, once)"
	@$(PIP) install --quiet --editable '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.made
	@echo "Installing dragoman with everything that its tests need (once)"
	@$(PIP) install --quiet --editable '.[dev]'
	@touch $(VENV)/.demo $@
