# Plain `make` prints what there is. Every target sets up what it needs by itself and may be run again at any time.
.DEFAULT_GOAL := help
.PHONY: help demo test test-unit test-live test-others up check format certs manifests rendered dist bench faults soak site requirements clean chromium
SHELL := /bin/bash

PYTHON ?= python3
K8S ?= 1.37
CLUSTER ?= pools
export K8S
# What tests start, some hundred times, is compiled once, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
READY := .venv/.ready

help: ## Print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## Show what the webhook does to example pods; no cluster needed
	@$(BIN)/gpu-admission try -f webhook/defaults/pods.yaml --from webhook/defaults/cluster.yaml || test $$? -eq 1

BUILD = $(BIN)/python -m tests.controlplane --k8s $(K8S)
LIVE = $(BIN)/pytest -q -m controlplane
test: $(READY) chromium ## Run every test; builds a real Kubernetes control plane on first use (K8S=1.34 for the oldest)
	@# The tests on a control plane wait most of the time: they run beside the others, which take what time they leave (nice)
	@# where a control plane is to be built first: what waits for it takes longest. The checks have one core: they run beside them too.
	@trap 'kill $$(jobs -p); exit 130' INT; $(MAKE) -s test-live & live=$$!; $(MAKE) -s check || { kill $$live; exit 1; }; $(if $(wildcard $(CACHE)/controlplane/*),,nice) $(MAKE) -s test-unit PROFILE=unhurried; status=$$?; \
	  wait $$live || status=1; exit $$status
	@mkdir -p $(CACHE) && rm -f $(CACHE)/harness-$(K8S)-* && touch $(PASSED)

# Parts side by side, which take about equally long: a test on a control plane waits most of the time. Each has control planes of
# its own, and a part ends with a test that compares all decisions made there.
ON_A_PLANE = $(filter-out $(UNCHANGED),$(sort $(shell grep -rl --include='test_*.py' 'pytest.mark.controlplane' tests)))
AT_THE_END = tests/e2e/test_every_decision.py
PARTS = RELEASES REPLICAS BEHAVIOUR MANIFESTS OTHERS
RELEASES = $(filter tests/e2e/test_helm.py tests/e2e/test_upgrade.py,$(ON_A_PLANE))
REPLICAS = $(filter $(patsubst %,tests/e2e/test_%.py,doctor events operator),$(ON_A_PLANE))
WAITING = $(filter tests/e2e/test_pending.py tests/e2e/test_tried_fixes.py,$(ON_A_PLANE))
BEHAVIOUR = $(WAITING) $(filter tests/e2e/behaviour/% tests/e2e/test_strangers.py,$(ON_A_PLANE)) $(AT_THE_END)
POLICIES = cpu_per_gpu examples policy_configmap preferences refusals templates theft
MANIFESTS = $(filter tests/manifests/% tests/export/% $(patsubst %,tests/e2e/test_%.py,$(POLICIES)),$(ON_A_PLANE)) $(AT_THE_END)
OTHERS = $(filter-out $(RELEASES) $(REPLICAS) $(BEHAVIOUR) $(MANIFESTS),$(ON_A_PLANE)) $(AT_THE_END)
test-live: $(READY) chromium ## Run the tests that need a control plane
	$(BUILD)
	@trap 'kill $$(jobs -p); exit 130' INT TERM; $(foreach part,$(PARTS),$(LIVE) $($(part)) & parts="$$parts $$!";) \
	  status=0; for part in $$parts; do wait $$part || status=1; done; exit $$status

# Not part of `make test`: to build these controllers takes as long as the control plane.
test-others: $(READY) ## Run the tests beside other controllers (JobSet, Karpenter, Kueue, KubeRay, …); builds these on first use
	$(BUILD) --others
	$(BIN)/pytest -q -m others tests/e2e/others

# The control plane that tests run on has tests itself, in tests/controlplane. They run when a file there is not as it was when they
# last passed here (PASSED says so), and with HARNESS=1.
CACHE = $(or $(GPU_ADMISSION_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gpu-admission)
PASSED := $(CACHE)/harness-$(K8S)-$(shell find tests/controlplane tests/up.py -type f ! -name '*.pyc' | sort | xargs sha256sum | sha256sum | head -c 12)
HARNESS ?= $(if $(wildcard $(PASSED)),,1)
UNCHANGED = $(if $(HARNESS),,tests/controlplane/ tests/controlplane/test_live.py)

# The page of `gpu-admission ui` is tested in a real browser.
chromium:
	@command -v chromium chromium-browser google-chrome >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing chromium (once, half a minute)" >&2; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	  else echo "no Chromium here: the tests of the page are skipped. Install it: apt-get install chromium" >&2; fi; }

PROFILE ?= quick
UNIT = $(BIN)/pytest -q -m "not controlplane and not others" --hypothesis-profile=$(PROFILE)
# Three parts side by side, which take about as much CPU time: one starts programs, one serves requests, one has all the rest.
STARTING = $(filter-out $(UNCHANGED),tests/bench/ tests/cli/ tests/controlplane/)
SERVING = tests/feeds/ tests/server/ tests/test_hostile.py tests/test_tenants.py
REST = $(filter-out $(STARTING) $(SERVING) $(UNCHANGED) tests/__pycache__/,$(wildcard tests/test_*.py) $(wildcard tests/*/))
test-unit: $(READY) chromium ## Run the tests that need no control plane; three minutes on two cores
	@# Properties are tried on fewer examples than by `make test` (PROFILE=unhurried).
	@trap 'kill $$(jobs -p); exit 130' INT; $(UNIT) $(STARTING) & one=$$!; $(UNIT) $(SERVING) & two=$$!; $(UNIT) $(REST); status=$$?; \
	  wait $$one || status=1; wait $$two || status=1; exit $$status

up: $(READY) ## Start a control plane, simulated GPU nodes and the webhook (CLUSTER=pools|two-node|4x8)
	@$(BIN)/python -m tests.up --cluster $(CLUSTER)

check: $(READY) ## Check format, lint, types, import layers and workflows
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/check-jsonschema -q --builtin-schema vendor.github-workflows .github/workflows/*.yaml
	$(BIN)/check-jsonschema -q --builtin-schema vendor.dependabot .github/dependabot.yml

format: $(READY) ## Format the code and fix what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

certs: $(READY) ## Write a development CA and certificate into certs/
	@$(BIN)/gpu-admission certs certs

manifests: $(READY) ## Write manifests/policy.yaml and docs/rules.md from the settings, the chart, and the drawing in CONTRIBUTING.md
	@$(BIN)/python -m tests.manifests.repository "$(REPOSITORY)"
	@$(BIN)/python -m tests.reference
	@$(BIN)/python -m tests.manifests.matching
	@$(BIN)/python -m tests.rooms
	@$(BIN)/python -m tests.manifests.chart

rendered: $(READY) ## Print everything that `kubectl apply -k manifests/` installs
	@$(BIN)/python -c "from tests.controlplane.programs import find; from subprocess import run; run([find().path(\"kubectl\"), \"kustomize\", \"manifests\"], check=True)"

dist: $(READY) ## Make what a release is made of (IMAGE=… DIGEST=sha256:… TAG=v…)
	@$(BIN)/python -m tests.manifests.release "$(IMAGE)" "$(DIGEST)" "$(TAG)"
	@test -x build/sbom/bin/cyclonedx-py || { $(PYTHON) -m venv build/sbom && \
	  build/sbom/bin/pip install -q --disable-pip-version-check cyclonedx-bom==7.5.0; }
	@build/sbom/bin/cyclonedx-py requirements requirements.txt --pyproject pyproject.toml -o dist/sbom.cdx.json
	@$(BIN)/python -m tests.manifests.release checksums

bench: $(READY) ## Measure: cost per review, choice of a node, quality of placement (NAMES="creates cluster" for more)
	@$(BIN)/python -m bench $(NAMES)

faults: $(READY) ## Break one thing after another while pods are created, and say which promise does not hold; three minutes
	@$(BIN)/python -m bench.faults

MINUTES ?= 10
soak: $(READY) ## Create pods, policies and certificates for MINUTES=10, and say what grows
	@$(BIN)/python -m bench.soak --minutes $(MINUTES)

site: ## Build the documentation as a site, build/site/index.html (needs npm, once)
	@test -x build/docs/bin/mkdocs || { $(PYTHON) -m venv build/docs && \
	  build/docs/bin/pip install -q --disable-pip-version-check --require-hashes -r docs/requirements.txt; }
	@NO_MKDOCS_2_WARNING=1 build/docs/bin/python docs/build.py

requirements: $(READY) ## Pin the newest allowed versions of all dependencies, with hashes
	$(BIN)/pip install -q uv
	$(BIN)/uv pip compile -q -U --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  pyproject.toml -o requirements.txt
	$(BIN)/uv pip compile -q -U --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --group dev pyproject.toml -c requirements.txt -o requirements-dev.txt
	$(BIN)/uv pip compile -q -U --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --group docs -o docs/requirements.txt

clean: ## Remove the virtual environment and everything built here (the control plane's cache stays)
	rm -rf .venv build *.egg-info bench/out .mypy_cache .ruff_cache .hypothesis

$(READY): requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "setting up .venv (once, about a minute)" >&2
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@PYTHONWARNINGS=ignore $(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
