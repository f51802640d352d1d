# Every target sets up what it needs: the virtual environment once, HBase's jars (cached in ~/.cache/walferry) once.
SHELL := /bin/bash
VENV := $(CURDIR)/.venv
PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed

export PATH := $(VENV)/bin:$(PATH)

.PHONY: help venv jars lint test test-unit demo bench soak clean

help:
	@echo 'make demo       two real HBase clusters and Airflow: replicate, compare, look around (DEMO_ONCE=1 ends by itself)'
	@echo 'make test       all tests, those with real clusters too; `make test-unit` only the quick ones without'
	@echo 'make lint       ruff and mypy'
	@echo 'make bench      beside HBase: reading WALs, draining a backlog, and a dead server'"'"'s queue; planning as clusters grow'
	@echo 'make soak       the tests that take long'
	@echo 'make clean      remove the virtual environment and what was cached beside it'

venv: $(INSTALLED)

$(INSTALLED): requirements.lock
	@python3.11 -c '' 2>/dev/null || { echo 'Python 3.11 is missing: install it so that `python3.11` is on PATH' >&2; exit 1; }
	python3.11 -m venv --clear $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --requirement requirements.lock
	@touch $(INSTALLED)

jars: venv
	@$(PYTHON) -m embedded

lint: venv
	$(VENV)/bin/ruff check
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy embedded demo

# Most tests wait for servers: two processes at once, each with clusters of its own, take little more than half the time.
test: jars
	$(PYTHON) -m pytest -m 'not soak' --numprocesses 2 --dist loadfile --no-loadscope-reorder

test-unit: venv
	$(PYTHON) -m pytest -m 'not slow and not soak' tests/unit

demo: jars
	@$(PYTHON) -m demo

bench: export PYTHONPATH := $(CURDIR)/plugins
bench: jars
	$(PYTHON) -m bench.wal_read
	$(PYTHON) -m bench.replication
	$(PYTHON) -m bench.recovered_queue
	$(PYTHON) -m bench.plan

soak: jars
	$(PYTHON) -m pytest -m soak --timeout=0

clean:
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
