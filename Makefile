# Every verb works from a fresh checkout: it prepares .venv first if that is needed. Bare `make` lists the verbs.
#
# ARGS="..." is handed on, for example: make test ARGS="-k batcher", make serve ARGS="--http-port 9000".

.DEFAULT_GOAL := help
.NOTPARALLEL:

BIN := .venv/bin
SERVE_READY := .venv/.ready-text
DEV_READY := .venv/.ready-dev
ARGS ?=

$(SERVE_READY) $(DEV_READY): .venv/.ready-%: pyproject.toml constraints-dev.txt scripts/install.sh hatch_build.py $(wildcard src/guepard/protocols/*.c)
	@scripts/install.sh $*

.PHONY: help
help: ## list these verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: install
install: $(DEV_READY) ## prepare .venv with everything that developing needs

.PHONY: serve
serve: $(SERVE_READY) ## serve the example models on http://127.0.0.1:8000
	@$(BIN)/python examples/fetch_minilm.py
	@exec $(BIN)/guepard serve --config examples/guepard.yaml $(ARGS)

.PHONY: test
test: $(DEV_READY) debian-packages ## run the test suite, long soaks and what needs a GPU left out
	@$(BIN)/python -m pytest -n 2 -m "not slow and not gpu" $(ARGS)

.PHONY: test-gpu
test-gpu: $(DEV_READY) ## run what needs an NVIDIA GPU, in an environment of its own
	@timeout 480 $$(scripts/gpu_environment.sh) -m pytest -m gpu -rs tests/gpu $(ARGS)

.PHONY: test-slow
test-slow: $(DEV_READY) debian-packages ## run the long soaks and loads
	@$(BIN)/python -m pytest -m slow $(ARGS)

.PHONY: lint
lint: $(DEV_READY) type ## check style, formatting, types and the direction of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports

.PHONY: format
format: $(DEV_READY) ## rewrite the sources in the house style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.PHONY: type
type: $(DEV_READY) ## check types alone
	@$(BIN)/mypy

.PHONY: bench
bench: $(DEV_READY) bench-packages ## measure speed and memory, and print them with their targets
	@$(BIN)/python -m benchmarks.serving.run $(ARGS)

.PHONY: bench-check
bench-check: $(DEV_READY) bench-packages ## fail if the hot path is slower than its baseline, or bench misses a target
	@$(BIN)/python -m benchmarks.micro.check; slower=$$?; \
	$(BIN)/python -m benchmarks.serving.run --check $(ARGS) && exit $$slower

.PHONY: compare
compare: $(DEV_READY) compare-packages ## measure beside other servers, and write the page about it
	@$(BIN)/python -m benchmarks.comparisons.run $(ARGS)

.PHONY: docs
docs: $(DEV_READY) ## write the reference pages anew from the declarations
	@$(BIN)/python -m guepard.settings.reference
	@$(BIN)/python -m guepard.cli.reference

.PHONY: proto
proto: $(DEV_READY) ## compile the .proto files into the descriptors that the package reads
	@scripts/compile_proto.sh

.PHONY: wheel
wheel: $(DEV_READY) ## build the wheel into dist/
	@$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/*.whl

.PHONY: clean
clean: ## remove caches and builds; .venv and fetched weights stay
	@rm -rf dist build .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: debian-packages
debian-packages:
	@scripts/debian_packages.sh wrk:wrk openssl:openssl

.PHONY: bench-packages
bench-packages:
	@scripts/debian_packages.sh wrk:wrk h2load:nghttp2-client

.PHONY: compare-packages
compare-packages:
	@scripts/debian_packages.sh wrk:wrk java:openjdk-17-jre-headless
