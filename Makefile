# Every target sets up all that it needs before it begins: the virtual environment once, HBase's jars (cached in ~/.cache/walferry) once.
SHELL := /bin/bash

# What the tests run on: a Python, with the packages of a lock. The default is the first of these Pythons that is there.
PYTHONS := 3.11 3.12 3.13
ifdef WITH
ENVIRONMENT := $(WITH)
VENV := $(CURDIR)/.venv-$(WITH)
else
ENVIRONMENT := $(shell for each in $(PYTHONS); do python$$each -c '' 2>/dev/null && echo $$each && break; done)
VENV := $(CURDIR)/.venv
endif
BASE_PYTHON := python$(firstword $(subst -, ,$(ENVIRONMENT)))
LOCK := $(if $(filter-out 3.11,$(ENVIRONMENT)),requirements/$(ENVIRONMENT).lock,requirements.lock)
ENVIRONMENTS := 3.11 $(patsubst requirements/%.lock,%,$(sort $(wildcard requirements/*.lock)))

PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed

export PATH := $(VENV)/bin:$(PATH)
# Tests and the demo start hundreds of Python processes, and each would compile our modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help python java browser venv kernels jars lint test test-unit test-all test-rest durations docs demo bench bench-quick soak lock clean

help:
	@echo 'make demo       two real HBase clusters and Airflow: replicate, compare, look around (DEMO_ONCE=1 ends by itself)'
	@echo 'make test       what each change has to pass: tests without HBase, and each capability once on real servers'
	@echo 'make test-unit  quick tests without Java'
	@echo 'make test-all   all tests but those that take very long; `SHARD=2/4 make test-all` the second of four equal parts'
	@echo 'make durations  all tests, as test-all, and how long each file took is noted for the next parts'
	@echo 'make lint       ruff, mypy, and what may import what'
	@echo 'make docs       the documentation as a site, in site/; it fails if a link or an anchor leads nowhere'
	@echo 'make bench      beside HBase: reading and showing WALs, writing HFiles, draining a backlog, also to a peer cluster far away and to secured ones, and a dead server'"'"'s queue, comparing tables; small batches through spark-submit and Spark Connect; planning; a cold start'
	@echo 'make bench-quick   within 15 minutes: ratios to HBase'"'"'s tools and CPU-seconds beside those in bench/figures.json, and what became slower; KEEP=1 stores them'
	@echo 'make soak       the tests that take long'
	@echo 'make lock       pin what requirements.txt and requirements/develop.txt pull in, after a change of them'
	@echo 'make clean      remove the virtual environments and what was cached beside them'
	@echo 'WITH=3.13 make test runs on another Python than the first one that is found. WITH is one of: $(ENVIRONMENTS)'

python:
	@[[ -n '$(ENVIRONMENT)' ]] || { echo 'Walferry needs Python. Install one of $(PYTHONS), so that `python3.11`, say, is on PATH' >&2; exit 1; }
	@$(BASE_PYTHON) -c '' 2>/dev/null || { echo 'There is no `$(BASE_PYTHON)` on PATH, which WITH=$(WITH) needs. Install it' >&2; exit 1; }

# Before the long downloads.
java: python
	@$(BASE_PYTHON) -m embedded --check

# For the tests that click. It is installed where that can be done; elsewhere these tests say what is missing.
browser: python
	@$(BASE_PYTHON) -m embedded.browser

venv: $(INSTALLED)

$(INSTALLED): $(LOCK) | python
	@$(BASE_PYTHON) -m embedded.venv $(VENV) $(LOCK)
	@touch $(INSTALLED)

# So that tests, the demo and benchmarks need not compile them in each Spark worker.
kernels: venv
	@PYTHONPATH=$(CURDIR)/plugins $(PYTHON) -m walferry.cli compile --here

jars: java kernels
	@$(PYTHON) -m embedded
	@PYTHONPATH=$(CURDIR)/plugins $(PYTHON) -m embedded.dump_classes

lint: venv
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy embedded demo bench tests
	PYTHONPATH=$(CURDIR)/plugins:$(CURDIR) $(VENV)/bin/lint-imports --no-cache

# Each process has clusters of its own; tests/conftest.py says how many processes there are.
PYTEST := $(PYTHON) -m pytest --numprocesses auto --no-loadscope-reorder

# All that need the same clusters run in one process, so that each kind of cluster starts once.
test: jars browser
	$(PYTEST) --dist loadgroup -m quick

test-all: jars browser
	$(PYTEST) --dist loadfile -m 'not soak'

# What `make test` leaves out of them.
test-rest: jars browser
	$(PYTEST) --dist loadfile -m 'not quick and not soak'

durations: export TESTS_RENEW_DURATIONS := 1
durations: test-all

# More processes than cores, as some tests wait; one that has none left takes over another's, as some files take long.
test-unit: kernels
	$(PYTHON) -m pytest -m 'not slow and not long and not soak' --numprocesses 4 --dist worksteal tests/unit

docs: venv
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict
	@echo 'Open site/index.html, or with its search: python3 -m http.server --bind 127.0.0.1 --directory site'

demo: java kernels
	@$(PYTHON) -m embedded hbase-2
	@$(PYTHON) -m demo

bench: export PYTHONPATH := $(CURDIR)/plugins
bench: java kernels
	@$(PYTHON) -m embedded hbase-2 hbase-1 codecs
	$(PYTHON) -m bench.wal_read
	$(PYTHON) -m bench.wal_show
	$(PYTHON) -m bench.hfiles
	$(PYTHON) -m bench.replication
	$(PYTHON) -m bench.several_peers
	$(PYTHON) -m bench.changes
	$(PYTHON) -m bench.kafka
	$(PYTHON) -m bench.far
	$(PYTHON) -m bench.protections
	$(PYTHON) -m bench.start
	$(PYTHON) -m bench.idle
	$(PYTHON) -m bench.recovered_queue
	$(PYTHON) -m bench.initial_snapshot
	$(PYTHON) -m bench.plan
	$(PYTHON) -m bench.page
	$(PYTHON) -m bench.verification
	$(PYTHON) -m bench.region_start

bench-quick: export PYTHONPATH := $(CURDIR)/plugins
bench-quick: java kernels
	@$(PYTHON) -m embedded hbase-2
	@$(PYTHON) -m bench.quick $(if $(KEEP),--keep)

soak: jars
	$(PYTHON) -m pytest -m soak --timeout=0

# Of a Python's own environment first what runs is locked, and then all that developing takes, with the same versions.
# requirements/….txt has the pins in which another environment differs.
RUN_LOCK := $(if $(findstring -,$(ENVIRONMENT)),,requirements/run/$(ENVIRONMENT).lock)
CONSTRAINTS := constraints-$(ENVIRONMENT).txt
WITHIN := $(if $(RUN_LOCK),PIP_CONSTRAINT=$(CONSTRAINTS))

lock: python
	$(if $(RUN_LOCK),$(BASE_PYTHON) -m embedded.lock requirements.txt $(RUN_LOCK))
	$(if $(RUN_LOCK),sed 's/ --hash=.*//' $(RUN_LOCK) > $(CONSTRAINTS))
	$(WITHIN) $(BASE_PYTHON) -m embedded.lock requirements.txt requirements/develop.txt $(wildcard requirements/$(ENVIRONMENT).txt) $(LOCK)

clean:
	rm -rf .venv .venv-* site .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
