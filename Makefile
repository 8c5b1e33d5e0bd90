# Targets: run, test, test-chaos, test-clients, check, bench, setup, lock, docs. Needs Python 3.11, 3.12 or 3.13 with pip, and nothing else.

UV_VERSION := 0.13.9
BIN := .venv/bin
CLIENTS_BIN := .venv-clients/bin
# Says that a .venv was made here and may be removed here, whole or half-made.
MARK := .venv/.made-by-make
ARGS ?=

# The first interpreter that both starts and is of a version that the package supports (a version manager's shim may be on
# the path without the interpreter behind it).
FIND_PYTHON = for python in python3.11 python3.12 python3.13 python3; do \
	  if $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; then \
	    echo $$python; exit; fi; done
PYTHON ?= $(shell $(FIND_PYTHON))

.DEFAULT_GOAL := help
.PHONY: help run test test-chaos test-clients check bench setup lock docs

help:
	@echo "make run     start Forebay: the gateway and its models (ARGS='--port 9000' passes options on)"
	@echo "make test    run the tests (ARGS='tests/unit -k catalog' passes options on)"
	@echo "make test-chaos   run the tests that kill processes, stop databases and fill disks for minutes"
	@echo "make test-clients   run other people's programs against Forebay, in an environment of their own (.venv-clients)"
	@echo "make check   lint, format, types, import ladder"
	@echo "make bench   measure the engine beside its peers"
	@echo "make docs    write the settings reference of docs/configuration.md anew"
	@echo "make lock    resolve the pinned dependencies anew"

run: $(BIN)/.run-installed
	@exec $(BIN)/python -m forebay serve $(ARGS)

test: $(BIN)/.dev-installed
	$(BIN)/python -m pytest $(ARGS)

test-chaos: $(BIN)/.dev-installed
	$(BIN)/python -m pytest -m chaos $(ARGS)

# The server is started from .venv; the programs have an environment of their own.
test-clients: $(BIN)/.run-installed $(CLIENTS_BIN)/.installed
	$(CLIENTS_BIN)/python -m pytest --confcutdir=tests/clients tests/clients $(ARGS)

check: $(BIN)/.dev-installed
	$(BIN)/python -m ruff check
	$(BIN)/python -m ruff format --check
	$(BIN)/python -m basedpyright
	$(BIN)/lint-imports

bench: $(BIN)/.dev-installed
	$(BIN)/python -m benchmarks.engine $(ARGS)

setup: $(BIN)/.dev-installed

docs: $(BIN)/.dev-installed
	$(BIN)/python -m forebay settings --write-into docs/configuration.md

# No URL of a package index is written into a lock, so that each place installs from its own.
COMPILE = $(BIN)/python -m uv pip compile --system-certs --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --custom-compile-command "make lock"

lock: $(BIN)/.uv-$(UV_VERSION)
	$(COMPILE) $(ARGS) pyproject.toml --output-file requirements.lock
	$(COMPILE) $(ARGS) pyproject.toml --all-extras --group dev --constraints requirements.lock --output-file requirements-dev.lock
	$(COMPILE) $(ARGS) --group clients --output-file requirements-clients.lock

# Marked before anything is in it, so that one whose making breaks off is made anew.
empty_venv = rm -rf .venv && mkdir .venv && touch $(MARK)

# A venv without pip, filled by the outer pip, also works where the interpreter came without ensurepip.
$(BIN)/.uv-$(UV_VERSION):
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed and none was found; install one, or name it: make PYTHON=/path/to/python"; exit 1; }
	@test ! -e .venv || test -e $(MARK) || { echo ".venv is here and was not made by make, so it is left alone; move it away, or remove it, and try again."; exit 1; }
	@echo "Making .venv with $(PYTHON) …"
	@$(empty_venv)
	@{ "$(PYTHON)" -m venv --without-pip .venv && \
	   "$(PYTHON)" -m pip --python $(BIN)/python install --quiet --disable-pip-version-check "uv==$(UV_VERSION)"; } || \
	 { $(empty_venv); "$(PYTHON)" -m venv .venv && \
	   $(BIN)/python -m pip install --quiet --disable-pip-version-check "uv==$(UV_VERSION)"; }
	@touch $@

# uv is quick, but knows nothing of how pip was set up on this machine (its index, its proxy), so pip is the second try.
# $(call install,THE VENV'S PYTHON,WHAT)
install = { $(BIN)/python -m uv pip install --system-certs --quiet --python $(1) $(2) || \
	{ echo "uv could not install; trying pip …"; \
	  "$(PYTHON)" -m pip --python $(1) install --quiet --disable-pip-version-check $(2) || \
	  $(1) -m pip install --quiet --disable-pip-version-check $(2); }; }

$(BIN)/.run-installed: requirements.lock pyproject.toml $(BIN)/.uv-$(UV_VERSION)
	@echo "Installing the pinned dependencies …"
	@$(call install,$(BIN)/python,--require-hashes --requirement requirements.lock)
	@$(call install,$(BIN)/python,--no-deps --editable .)
	@touch $@

$(BIN)/.dev-installed: requirements-dev.lock $(BIN)/.run-installed
	@echo "Installing the development tools …"
	@$(call install,$(BIN)/python,--require-hashes --requirement requirements-dev.lock)
	@touch $@

# Made anew each time, so that nothing of an earlier lock stays in it.
$(CLIENTS_BIN)/.installed: requirements-clients.lock $(BIN)/.uv-$(UV_VERSION)
	@echo "Installing the clients …"
	@rm -rf .venv-clients
	@$(BIN)/python -m uv venv --quiet --python $(BIN)/python .venv-clients
	@$(call install,$(CLIENTS_BIN)/python,--require-hashes --requirement requirements-clients.lock)
	@touch $@
