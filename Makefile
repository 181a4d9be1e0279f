.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
JARS ?= .jars
PYTHON ?= python3
PYTEST ?= $(BIN)/pytest
# One worker runs what needs Spark; the others share the rest. Half of the suite waits, so that there are more of them than
# cores. Slow tests run whole clusters, which need more memory and time.
WORKERS ?= 5
SLOW_WORKERS ?= 4
SPREAD = --dist loadfile --no-loadscope-reorder
UV := $(shell command -v uv 2>/dev/null)

.PHONY: help demo test test-rest test-slow test-all nightly fuzz lint fmt jars lock pin-jars broker-jar wheel bench bench-full clean
help: ## Show what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One stamp per lock file: `demo` needs only the run-time set, `test` and `lint` the developers' set.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "pid-quota: $$($(PYTHON) --version) found, Python >= 3.10 needed: call make with PYTHON=python3.12, say" >&2; exit 1; }
	@if [ -n "$(UV)" ]; then \
		test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) $(VENV); \
		VIRTUAL_ENV=$(CURDIR)/$(VENV) $(UV) pip install --require-hashes --no-deps -r $(1); \
		VIRTUAL_ENV=$(CURDIR)/$(VENV) $(UV) pip install --quiet --no-deps --no-build-isolation -e .; \
	else \
		test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); \
		$(BIN)/python -m pip install --disable-pip-version-check --require-hashes --no-deps -r $(1); \
		$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation -e .; \
	fi
	@touch $(2)
endef

$(VENV)/.spark: requirements/spark.txt pyproject.toml
	$(call install,requirements/spark.txt,$@)

$(VENV)/.dev: requirements/dev.txt pyproject.toml
	$(call install,requirements/dev.txt,$@)
	@touch $(VENV)/.spark

$(JARS)/.complete: jvm/ivy.xml | $(VENV)/.spark
	$(BIN)/python -m jvm $(JARS)

jars: $(JARS)/.complete ## Fetch the JVM parts once (Kafka broker, Spark's Kafka source, Delta)

# A change of jvm/ivy.xml fetches other jars than are pinned, which is refused: this pins them.
pin-jars: $(VENV)/.spark ## After a change of jvm/ivy.xml: fetch, and pin what came (compare it with the publishers')
	-$(BIN)/python -m jvm $(JARS)
	cd $(JARS) && sha256sum spark/*.jar kafka/*.jar compiler/*.jar > $(CURDIR)/jvm/jars.sha256
	$(BIN)/python -m jvm $(JARS)

demo: $(VENV)/.spark $(JARS)/.complete ## Real broker, real producers, live quota: 90 s of traffic
	$(BIN)/pid-quota demo $(if $(SECONDS_OF_TRAFFIC),--seconds $(SECONDS_OF_TRAFFIC))

# Every rule, and one path through each real part: a broker with the plugin, Spark, `run` from end to end, the console.
DOCTESTS = wire quota lifecycle state tables broker streaming jobs
FIRST = tests/unit tests/fuzz tests/broker/test_plugin.py tests/broker/test_hold.py tests/stream/test_pipeline.py \
	tests/run/test_one_command.py tests/bundle/test_console_page.py

test: $(VENV)/.dev $(JARS)/.complete ## What finds most mistakes within minutes
	$(PYTEST) -n $(WORKERS) $(SPREAD) -m "not slow" $(DOCTESTS) $(FIRST)

test-rest: $(VENV)/.dev $(JARS)/.complete ## All other tests but the slow ones
	$(PYTEST) -n $(WORKERS) $(SPREAD) -m "not slow" tests $(addprefix --ignore=,$(FIRST))

test-slow: $(VENV)/.dev $(JARS)/.complete ## The slow tests
	$(PYTEST) -n $(SLOW_WORKERS) $(SPREAD) -m "slow and not alone"
	$(PYTEST) -m alone

test-all: test test-rest ## What CI runs: every test but the slow ones

nightly: lint ## What is to run each night: lint, 20,000 histories, every test
	$(MAKE) fuzz HISTORIES=20000
	$(MAKE) test-all test-slow

fuzz: $(VENV)/.dev ## Histories against the oracle of the rules: HISTORIES=20000, SEED=N
	PYTHONPATH=$(CURDIR) $(BIN)/python tests/fuzz/run.py --histories $(or $(HISTORIES),2000) $(if $(SEED),--seed $(SEED))

lint: $(VENV)/.dev ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fmt: $(VENV)/.dev ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.spark $(JARS)/.complete ## Measure what is felt within 8 minutes: dist/bench
	PYTHONPATH=$(CURDIR) $(BIN)/python -m bench.report

bench-full: $(VENV)/.spark $(JARS)/.complete ## Measure everything within 45 minutes: bench/results, docs/performance.md
	PYTHONPATH=$(CURDIR) $(BIN)/python -m bench.report --full

broker-jar: $(JARS)/.complete ## Build dist/pid-quota-broker.jar, which brokers load (docs/plugin.md)
	$(BIN)/python -m jvm.broker_jar dist/pid-quota-broker.jar $(JARS)

wheel: $(VENV)/.spark broker-jar ## Build the wheel into dist/
	cp dist/pid-quota-broker.jar jvm/
	$(BIN)/python -m hatchling build -t wheel
	$(BIN)/python -m tables.schema.views > dist/views.sql

# No index address is written: the lock files name versions and hashes only.
LOCK = uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header pyproject.toml --extra spark
lock: ## Renew requirements/*.txt and the App's constraints (needs uv)
	$(LOCK) --extra databricks --group dev -o requirements/dev.txt
	$(LOCK) --group build -c requirements/dev.txt -o requirements/spark.txt
	uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate pyproject.toml --extra databricks \
		-c requirements/dev.txt -o resources/console/constraints.txt

clean: ## Remove what was made, but the fetched jars
	rm -rf $(VENV) dist build demo-data spark-warehouse .pytest_cache .mypy_cache .ruff_cache
