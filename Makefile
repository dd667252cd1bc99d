# Every command a person or CI runs, in one place. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
DEMO_STAMP := $(VENV)/.demo
RAY_VENV := .venv-ray$(if $(RAY),-$(RAY))
RAY_STAMP := $(RAY_VENV)/.ready
RELEASE_VENV := .venv-release
RELEASE_STAMP := $(RELEASE_VENV)/.ready
VERSIONS ?= newest
VERSIONS_VENV := .venv-$(VERSIONS)
# What runs in minutes; all of tests/contract may be run so, too.
CONTRACT_ON_RAY := $(addprefix tests/contract/test_,tasks.py actors.py get_put_wait.py errors.py)
# The rooms that decide, and the tests that reach most of them in their own process.
CORE := $(addprefix --cov=phalanx.,head node owner scheduler)
TESTS_OF_CORE := $(addprefix tests/,unit/head unit/node unit/owner unit/objects unit/protocol unit/scheduler simulation)
.DEFAULT_GOAL := help
.PHONY: help setup redis run integrations test test-versions test-gpu test-cgroups test-browser pictures fuzz conformance conformance-libraries test-ray test-ray-slow test-slow docs man changelog release cover check hooks fmt bench reproduce beside explore lab clean mpi

help: ## list the commands
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

# Where Python is told to write no bytecode, each process would compile what it imports.
setup: $(STAMP) ## make .venv with everything that run, test and check need
	@$(BIN)/python -m compileall -q src benchmarks research

$(STAMP): pyproject.toml research/pyproject.toml benchmarks/pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  echo "venv is missing: on Debian, apt-get install python3-venv"; exit 1; }
	@echo "installing what run, test and check need into $(VENV); this takes a minute or two"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' -e './research[demo,packing]' -e ./benchmarks
	@touch $(STAMP) $(DEMO_STAMP)

# The demonstration needs a small part of what `setup` installs, and comes first in a fresh clone.
$(DEMO_STAMP): pyproject.toml research/pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  echo "venv is missing: on Debian, apt-get install python3-venv"; exit 1; }
	@echo "installing what the demonstration needs into $(VENV); this takes less than a minute"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e . -e './research[demo,packing]'
	@$(BIN)/python -m compileall -q src research
	@touch $(DEMO_STAMP)

redis: ## Debian's redis-server, which the tests of the control store start
	@{ command -v redis-server && command -v openssl; } >/dev/null || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null || { \
	    echo "redis-server or openssl is missing: apt-get install redis-server openssl"; exit 1; }; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
	    apt-get install -y -qq --no-install-recommends redis-server openssl >/dev/null; }

run: $(DEMO_STAMP) ## the main job: search and train on real digits, with a live display
	@$(BIN)/phalanx demo

test: setup redis ## all quick tests (under ten minutes on two cores)
	@$(BIN)/python -m pytest -n 4 --dist worksteal -m 'not slow' --ignore tests/ray_engine --ignore tests/browser

# Without constraints.txt: what a user's fresh install gets, and the least that pyproject.toml allows. Old
# versions warn of newer ones beneath them, which is not ours.
test-versions: redis ## the quick tests with VERSIONS=newest (default) or lowest of all packages, in a venv of their own
	@test -x $(VERSIONS_VENV)/bin/python || $(PYTHON) -m venv $(VERSIONS_VENV) || { \
	  echo "venv is missing: on Debian, apt-get install python3-venv"; exit 1; }
	@$(VERSIONS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check uv
	@$(VERSIONS_VENV)/bin/python -m uv pip install --quiet --python $(VERSIONS_VENV)/bin/python --upgrade \
	  --resolution $(if $(filter lowest,$(VERSIONS)),lowest-direct,highest) \
	  -e '.[dev]' -e './research[demo,packing]' -e ./benchmarks
	@$(VERSIONS_VENV)/bin/python -m compileall -q src benchmarks research
	@$(VERSIONS_VENV)/bin/python -m pytest -n 4 --dist worksteal -m 'not slow' --ignore tests/ray_engine --ignore tests/browser \
	  $(if $(filter lowest,$(VERSIONS)),-W default) $(TESTS)

test-gpu: setup ## what needs a real GPU: its driver, and jobs, tasks and actors on it, shares measured (minutes; skipped without one)
	@$(BIN)/python -m pytest -rs tests/gpu; tested=$$?; $(BIN)/python -m tests.gpu.measure_shares && exit $$tested

test-cgroups: setup ## limits that the kernel holds, in a virtual machine with control groups (a minute; root, Debian)
	@$(BIN)/python tools/virtual_machine.py -- $(BIN)/python -m pytest -q -rs -p no:cacheprovider \
	  tests/unit/runtime/test_command_groups.py

test-ray: $(RAY_STAMP) ## the engine on Ray, and the API's contract there (RAY=2.49.2: that version)
	@$(RAY_VENV)/bin/python -m compileall -q src benchmarks research
	@$(RAY_VENV)/bin/python -m pytest -m 'not slow' tests/ray_engine
	@$(RAY_VENV)/bin/python -m pytest --engine phalanx-on-ray $(CONTRACT_ON_RAY)

test-ray-slow: $(RAY_STAMP) ## Ray's processes killed at random, from more seeds (three minutes)
	@$(RAY_VENV)/bin/python -m pytest -m slow tests/ray_engine

$(RAY_STAMP): pyproject.toml research/pyproject.toml benchmarks/pyproject.toml constraints.txt
	@test -x $(RAY_VENV)/bin/python || $(PYTHON) -m venv $(RAY_VENV) || { \
	  echo "venv is missing: on Debian, apt-get install python3-venv"; exit 1; }
	@sed '$(if $(RAY),s/^ray==.*/ray==$(RAY)/)' constraints.txt > $(RAY_VENV)/constraints.txt
	@$(RAY_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
	  -c $(RAY_VENV)/constraints.txt -e '.[dev,ray,libraries]' -e './research[demo,packing]' -e ./benchmarks
	@touch $(RAY_STAMP)

conformance-libraries: $(RAY_STAMP) ## tests of Ray's libraries, from RAY_TESTS=DIR with Ray's python/ray (LIBRARY=tune)
	@$(RAY_VENV)/bin/python tools/conformance/libraries.py --ray $(RAY_TESTS) \
	  --library $(or $(LIBRARY),tune) --out conformance-libraries.json

conformance: setup ## Ray's own tests, from RAY_TESTS=DIR with Ray's python/ray/tests (an hour; MORE=1: 258 further ones; FLAGS="--jobs 2")
	@$(BIN)/python tools/conformance/run.py --tests-dir $(RAY_TESTS) --out conformance.json \
	  $(if $(MORE),--list tools/conformance/tests_extended.txt) $(FLAGS)

mpi: ## Debian's two MPIs, which the suite of that name runs under
	@{ command -v mpirun.openmpi && command -v mpirun.mpich; } >/dev/null || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null || { \
	    echo "an MPI is missing: apt-get install openmpi-bin mpich"; exit 0; }; \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends openmpi-bin mpich >/dev/null; }

integrations: setup $(if $(HOSTS),$(filter mpi,$(HOSTS)),mpi) ## test suites of other programs over Phalanx (HOSTS="hydra submitit", NEWEST=1; docs/howto/integrations.md)
	@$(BIN)/python tools/integrations/run.py $(if $(NEWEST),--newest) $(HOSTS)

test-browser: setup ## the web page and the site of `make docs` in Debian's Chromium, with axe-core
	@command -v chromium >/dev/null || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null || { \
	    echo "chromium is missing: apt-get install chromium"; exit 1; }; \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser,docs]'
	@$(BIN)/python -m pytest tests/browser

pictures: setup ## the README's pictures, of the page of a real cluster in Chromium (see test-browser)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser]'
	@$(BIN)/python tools/pictures.py docs/pictures

docs: setup ## the documentation site, in build/site (open index.html there; no network is needed to read it)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --jobs auto -b html docs build/site
	@echo "build/site/index.html"

man: setup ## the manual pages, in build/man (man -l build/man/phalanx-run.1)
	@$(BIN)/python tools/release/man.py build/man

changelog: ## fold changelog.d into CHANGELOG.md as VERSION=0.2.0 (DATE=2027-01-31; else today)
	@$(PYTHON) tools/release/changelog.py --version $(VERSION) --date $(or $(DATE),$(shell date -u +%F))

release: setup $(RELEASE_STAMP) ## wheels, source archives, SBOM and checksums of HEAD in dist, built twice and tried in an empty venv
	@$(RELEASE_VENV)/bin/python tools/release/build.py --python $(abspath $(BIN)/python)
	@$(RELEASE_VENV)/bin/python tools/release/check.py --python $(PYTHON)

$(RELEASE_STAMP): tools/release/requirements.txt
	@test -x $(RELEASE_VENV)/bin/python || $(PYTHON) -m venv $(RELEASE_VENV) || { \
	  echo "venv is missing: on Debian, apt-get install python3-venv"; exit 1; }
	@$(RELEASE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r tools/release/requirements.txt
	@touch $(RELEASE_STAMP)

test-slow: setup redis ## the long soak and everything marked slow
	@$(BIN)/python -m pytest --cold --hypothesis-profile full -m 'slow or hypothesis' --ignore tests/browser

fuzz: setup ## requests, manifests, messages and commands of any kind, SECONDS (60) for each suite
	@PHALANX_FUZZ_S=$(or $(SECONDS),60) $(BIN)/python -m pytest --timeout 0 -s tests/fuzz

check: setup ## style, types, import contracts, circles, code that only tests use, prose
	@$(BIN)/ruff check src benchmarks research tests examples tools
	@$(BIN)/ruff format --check src benchmarks research tests examples tools
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tools/import_circles.py
	@$(BIN)/python tools/unused.py
	@$(BIN)/python tools/prose.py

cover: setup ## the lines and branches of the deciding core that its tests leave out
	@$(BIN)/python -m pytest -n 2 -m 'not slow' $(CORE) --cov-branch \
	  --cov-report=term-missing:skip-covered $(TESTS_OF_CORE)

hooks: setup ## have git run the checks before commits and pushes
	@$(BIN)/pre-commit install

fmt: setup ## put the code into the house's format
	@$(BIN)/ruff format src benchmarks research tests examples tools
	@$(BIN)/ruff check --fix src benchmarks research tests examples tools

bench: setup ## every row of Ray's microbenchmark, placement, batch, store (PEER=ray: Ray beside)
	@$(BIN)/phalanx bench --group all $(if $(PEER),--peer $(PEER))
	@$(BIN)/phalanx bench --group day

reproduce: setup ## the published fragmentation table beside ours, ten seeds (a few minutes)
	@$(BIN)/python -m phalanx_research.arrival.reproduce examples/traces

beside: setup ## Phalanx beside a real system, started here: SYSTEM=slurm (CASES=commands,orders,shares,decay,launchers, torch or backfill, SEED=1), hyperqueue, dask, parsl or ray
	@$(BIN)/python -m phalanx_benchmarks.beside $(or $(SYSTEM),slurm) --seed $(or $(SEED),1) $(if $(CASES),--cases $(CASES)) $(if $(PLOT),--plot $(PLOT))

explore: setup ## simulated clusters under faults from random seeds, for SECONDS (60)
	@$(BIN)/python -m phalanx_research.chaos.explore --seconds $(or $(SECONDS),60) \
	  --found tests/simulation/chaos/seeds.txt

lab: setup $(RELEASE_STAMP) ## six machines in network namespaces: phalanx up, an upgrade, a lost head; writes docs/tutorials/lab.md (root only)
	@test -x /usr/sbin/sshd || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || { \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
	    apt-get install -y -qq --no-install-recommends openssh-server iproute2 redis-server >/dev/null; }
	@$(BIN)/python tools/lab/run.py $(if $(BEFORE),--before $(BEFORE))

clean: ## remove .venv and caches
	rm -rf $(VENV) .venv-ray* .venv-newest .venv-lowest .venv-hosts .venv-release .mypy_cache .ruff_cache .pytest_cache .hypothesis
