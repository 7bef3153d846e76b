# Each target does its own set-up in .venv, pinned by requirements.lock, and repeats it only when
# pyproject.toml or the lock changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEER := .venv-careamics
PIP_INSTALL := -m pip --disable-pip-version-check install --quiet --constraint requirements.lock

.PHONY: help demo test test-browser chromium bench clean
help:
	@echo "make demo    a tour on noisy digits, offline once installed"
	@echo "make test    lint, types and tests"
	@echo "make test-browser   the report page in a real browser; installs chromium if there is none"
	@echo "make bench   speed, as ratios measured side by side"
	@echo "make clean   remove the virtual environments and caches"

demo: $(VENV)/.run-installed
	@echo "== dcs demo"
	@$(BIN)/dcs demo

test: $(VENV)/.dev-installed
	@echo "== lint"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "== types"
	@$(BIN)/mypy
	@echo "== tests"
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile --durations 10

# Screenshots are left in build/screenshots.
test-browser: $(VENV)/.browser-installed chromium
	@echo "== tests in a browser"
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/report/test_browser.py

chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null || { \
	    echo "no chromium is installed: install it first, such as by sudo apt-get install chromium"; exit 1; }; \
	  echo "== installing chromium"; apt-get update -qq && apt-get install -qq --yes --no-install-recommends chromium >/dev/null; }

bench: $(VENV)/.dev-installed $(PEER)/.installed
	@echo "== benchmarks: leave the machine alone for a quarter of an hour"
	@$(BIN)/python benchmarks/bench.py --peer $(PEER)/bin/python

clean:
	rm -rf $(VENV) $(PEER) build .pytest_cache .mypy_cache .ruff_cache .hypothesis

%/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dcs-learn needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	@echo "== creating $*"
	@$(PYTHON) -m venv $*

$(VENV)/.run-installed: pyproject.toml requirements.lock | $(BIN)/python
	@echo "== installing dcs-learn and what it runs on into $(VENV)"
	@$(BIN)/python $(PIP_INSTALL) --editable '.[images]'
	@touch $@

$(VENV)/.dev-installed: $(VENV)/.run-installed
	@echo "== installing the tools for tests and types into $(VENV)"
	@$(BIN)/python $(PIP_INSTALL) --editable '.[dev]'
	@touch $@

$(VENV)/.browser-installed: $(VENV)/.dev-installed
	@echo "== installing playwright into $(VENV)"
	@$(BIN)/python $(PIP_INSTALL) --editable '.[browser]'
	@touch $@

# What `make bench` compares with: without its dependencies, of which torchvision would replace torch.
$(PEER)/.installed: requirements.lock | $(PEER)/bin/python
	@echo "== installing CAREamics, to compare with, into $(PEER)"
	@$(PEER)/bin/python -m pip --disable-pip-version-check install --quiet --editable '.[images,zarr]' \
	  $$(grep ^torch== requirements.lock) numpy==2.4.6 pydantic==2.14.1 bioimageio-core==0.11.0 lightning==2.6.6 \
	  matplotlib microssim==0.0.5 psutil pyyaml scikit-image==0.26.0 torchmetrics==1.8.2
	@$(PEER)/bin/python $(PIP_INSTALL) --no-deps careamics==0.3.5
	@touch $@
