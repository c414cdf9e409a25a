# `make serve` and `make test` are all a newcomer needs; each sets itself up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHELL := bash
.SHELLFLAGS := -o pipefail -c
# pip's own lines would fill a screen; a dot for each package shows that it goes on.
INSTALL = $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -c constraints.txt
DOTS = awk '/^(Collecting|Installing)/ { printf "."; fflush() } END { print "" }'

# The tests start hundreds of interpreters: what they import is compiled once, not by each of them.
unexport PYTHONDONTWRITEBYTECODE

# Databases of tests live in memory where there is room: nothing of a test outlives its machine.
export PYTEST_DEBUG_TEMPROOT ?= $(or $(shell test -w /dev/shm && echo /dev/shm),/tmp)

.PHONY: serve test test-long test-servers check quick-tests lint docs format bench soak demo clean help
.DEFAULT_GOAL := help

help:
	@echo "make serve      run mailonce on SQLite at http://127.0.0.1:8100; another port: make serve PORT=8200"
	@echo "make demo       a storm of duplicated, shuffled webhooks; shows that each took effect once"
	@echo "make check      format, lint, types, import contracts, tests without servers: before each commit"
	@echo "make test       every check, as CI runs it: with servers, crashes and a browser, ten minutes"
	@echo "make test-long  the same suites at full length"
	@echo "make bench      speeds as ratios against peers, in one run"
	@echo "make soak       a thousand random kills of each app behind the gate; one effect per message"

$(BIN)/mailonce: pyproject.toml constraints.txt
	@bash deploy/make_venv.sh $(VENV) $(PYTHON)
	@printf 'installing mailonce into $(VENV), which takes a minute '
	@$(INSTALL) -e '.[server]' | $(DOTS)
	@echo "the command is $(BIN)/mailonce; to have it as mailonce: export PATH=\"$(CURDIR)/$(BIN):\$$PATH\""
	@touch $@

$(VENV)/.dev: $(BIN)/mailonce
	@printf 'installing the test tools into $(VENV) '
	@$(INSTALL) -e '.[server,dev]' | $(DOTS)
	@touch $@

serve: $(BIN)/mailonce
	@$(BIN)/mailonce serve$(if $(PORT), --port $(PORT))

demo: $(BIN)/mailonce
	@$(BIN)/mailonce demo

# An example app with the packages that it needs, such as `make example-gate_fastapi`.
example-%: $(BIN)/mailonce
	@$(INSTALL) --quiet -r examples/$*/requirements.txt
	@$(BIN)/python -c "import socket; socket.create_server(('127.0.0.1', $${PORT:-8000}))" 2>/dev/null || \
		{ echo "port $${PORT:-8000} is in use; choose another: PORT=8001 make example-$*" >&2; exit 1; }
	@echo "examples/$* starts at http://127.0.0.1:$${PORT:-8000}/hooks"
	@cd examples/$* && WEBHOOK_SECRET=$${WEBHOOK_SECRET:-whsec_c2VjcmV0LW9mLXRoZS1zZW5kZXI=} $(CURDIR)/$(BIN)/python app.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format --quiet .

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py

# Both at once: types are checked on one core.
check: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j 2 --output-sync=target lint quick-tests

quick-tests: $(VENV)/.dev
	$(BIN)/pytest -q -n 4 --dist worksteal -m "not server and not slow and not long"

# What apt-get brings comes in while pip installs and the code is checked.
test:
	@$(MAKE) --no-print-directory -j 2 lint test-servers
	$(BIN)/pytest -n 4 --dist worksteal -rs -m "not long"

test-servers:
	bash tests/browser/install.sh
	bash tests/acceptance/install_senders.sh

test-long: $(VENV)/.dev test-servers
	$(BIN)/pytest -n 2 -rs

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

soak: $(VENV)/.dev
	$(BIN)/pytest -s -n 0 -m long tests/acceptance/test_gate_soak.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
