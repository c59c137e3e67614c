# Two commands are enough: `make view` and `make test`. Everything else is optional.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
export NUMBA_THREADING_LAYER ?= workqueue
export HF_HUB_OFFLINE ?= 1

.PHONY: view test test-all bench warmup lint clean

view: $(VENV)/.runtime
	$(BIN)/advscene view $(ARGS)

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest $(ARGS)

test-all: $(VENV)/.dev lint
	$(BIN)/python -m pytest -m "slow or not slow" $(ARGS)

bench: $(VENV)/.bench
	$(BIN)/python -m tests.bench $(ARGS)

warmup: $(VENV)/.runtime
	$(BIN)/advscene warmup

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy

# torch comes first: asked for together with the rest, pip may take a CUDA build of several GB.
$(VENV)/.torch:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet "torch==2.14.1" "torchvision==0.29.1"
	touch $@

$(VENV)/.runtime: $(VENV)/.torch pyproject.toml
	$(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet -e ".[bench]"
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
