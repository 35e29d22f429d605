# Hotset: `make help` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

# Set-up notes the Java it found, since the one on the path may be another version, and what lets Spark start faster.
PY = JAVA_HOME="$$(cat .hotset/java-home)" SPARK_SUBMIT_OPTS="$${SPARK_SUBMIT_OPTS-$$(cat .hotset/spark-options)}" \
     .venv/bin/python
PYTEST = $(PY) -m pytest
CODE = schemas runtime batch_scoring online infra dags tests
# No Spark, no Airflow, no stack, no browser.
FAST = not spark and not airflow and not e2e and not browser and not fault and not long and not gpu

.PHONY: help setup setup-browser lock demo up down status airflow fmt lint type test-fast test test-faults soak clean

help: ## this list
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | while IFS=$$'\t' read -r name text; do printf '  %-16s %s\n' "$$name" "$$text"; done

setup: ## Java, the product's environment, Airflow's environment; quick when nothing changed
	@PYTHON="$(PYTHON)" infra/local/setup.sh

setup-browser: setup ## the Chromium that the tests of the site drive
	@infra/local/setup.sh --browser

lock: setup ## resolve infra/requirements/*.in anew into lock files
	$(PY) -m infra.local.lock

demo: setup ## the whole job on real flights, ending with a table; leaves the stack running
	@$(PY) -m infra.demo

up: setup ## start the local stack and leave it running
	@$(PY) -m infra.local up

down: ## stop the local stack
	@if [ -x .venv/bin/python ]; then .venv/bin/python -m infra.local down; else echo "nothing is set up"; fi

status: setup ## what of the local stack runs
	@$(PY) -m infra.local status

airflow: setup ## the real Airflow UI on the nightly DAG, until Ctrl-C
	@$(PY) -m infra.airflow ui

fmt: setup ## format, and fix what ruff can
	$(PY) -m ruff format $(CODE)
	$(PY) -m ruff check --fix $(CODE)

lint: setup ## ruff, format, import directions
	$(PY) -m ruff check $(CODE)
	$(PY) -m ruff format --check $(CODE)
	.venv/bin/lint-imports

type: setup ## mypy, strict
	$(PY) -m mypy

test-fast: setup ## unit and contract tests, under a minute
	$(PYTEST) -q -m "$(FAST)" tests/unit tests/contracts

test: setup-browser lint type ## lint, types, and all tests but faults, long nights and the demo
	$(PYTEST) --durations=15 -m "not fault and not e2e and not long"

test-faults: setup-browser mlserver ## kills, full disks, soaks, whole nights, and the demo from end to end
	$(PYTEST) --durations=15 -m "fault or e2e or long"

soak: setup ## nobody gets somebody else's answer: 100,000 requests under faults, in some four minutes
	$(PYTEST) -q -m fault tests/soak

clean: down ## remove what the stack wrote; environments stay
	rm -rf .hotset

# Benchmarks: one target each, called bench-NAME, with a line for `make help`.
# Progress goes to the screen's standard error; the last line of standard output is JSON.
.PHONY: peers feast mlserver bench-live bench-live-quick bench-hits bench-hits-quick
.PHONY: bench-score bench-score-quick bench-load bench-load-quick

mlserver: setup ## the environment of the foreign server that a fault test drives
	@$(PY) -m infra.local.others mlserver

peers: setup ## the environment of the servers that bench-live runs beside the product
	@$(PY) -m infra.local.others peers

feast: setup ## Feast's feature server, which bench-hits runs beside the product where it is set up; 600 MB
	@$(PY) -m infra.local.others feast

bench-live: peers ## the live tier beside an ideal device and other servers, within 10 minutes
	@$(PY) -m tests.bench.live

bench-live-quick: peers ## the same in little more than a minute, less certain
	@$(PY) -m tests.bench.live --quick

bench-hits: setup ## hits beside the web server's own cost and other ways to them, within 10 minutes
	@$(PY) -m tests.bench.hits

bench-hits-quick: setup ## the same in little more than a minute, less certain
	@$(PY) -m tests.bench.hits --quick

bench-score: setup ## the score step on local Spark beside a bare torch loop, within 10 minutes
	@$(PY) -m tests.bench.scoring

bench-score-quick: setup ## the same in little more than a minute, less certain
	@$(PY) -m tests.bench.scoring --quick

bench-load: setup ## score files to a verified generation beside redis-cli --pipe, within 10 minutes
	@$(PY) -m tests.bench.loading

bench-load-quick: setup ## the same in little more than a minute, less certain
	@$(PY) -m tests.bench.loading --quick

.PHONY: bench-planning bench-planning-quick

bench-planning: setup ## the planner's predictions beside the measured live tier, within 10 minutes
	@$(PY) -m tests.bench.planning

bench-planning-quick: setup ## the same in little more than a minute, less certain
	@$(PY) -m tests.bench.planning --quick

.PHONY: bench-hotset bench-hotset-quick

bench-hotset: setup ## the chosen hot set beside caches and other sets, on traces of others, within 10 minutes
	@$(PY) -m tests.bench.hotset

bench-hotset-quick: setup ## the same in little more than a minute, less certain
	@$(PY) -m tests.bench.hotset --quick

.PHONY: bench-insight bench-insight-quick

bench-insight: setup ## what log and metrics cost a hit, what the log writer holds, how fast pages are, within 10 minutes
	@$(PY) -m tests.bench.insight

bench-insight-quick: setup ## the same in little more than a minute, less certain
	@$(PY) -m tests.bench.insight --quick
