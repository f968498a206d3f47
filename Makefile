# `make demo` and `make test` do all the set-up on a fresh machine; `make fast` is the inner loop.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-demo
INSTALL = $(BIN)/pip install --quiet --constraint constraints.txt --editable

.PHONY: demo test fast test-slow check bench setup clean

setup: $(STAMP)

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml constraints.txt | $(BIN)/pip
	$(INSTALL) '.[test,check]'
	touch $@ $(DEMO_STAMP)

# The demo needs few of the extras that the tests need: no Ray, no Stable-Baselines3.
$(DEMO_STAMP): pyproject.toml constraints.txt | $(BIN)/pip
	$(INSTALL) '.[report,stats,video]'
	touch $@

demo: $(DEMO_STAMP)
	OMP_NUM_THREADS=1 $(BIN)/mmrs demo --out runs/demo

# One thread per process: two workers share two cores, and threads that wait for each other cost more than they give.
test: check
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --dist worksteal -m "not slow"

# Lint and the quick tests (tests/conftest.py says which); `make fast ARGS="-x -k landmarks"` passes arguments on.
fast: $(STAMP)
	$(BIN)/ruff check .
	OMP_NUM_THREADS=1 $(BIN)/pytest --fast --numprocesses 2 --dist worksteal $(ARGS)

# Ray clusters whose workers and nodes die, and other tests of about a minute each.
test-slow: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

# The peer's requirements conflict with ours, so it is installed in a folder of its own, without dependencies.
bench: $(STAMP)
	$(BIN)/pip install --quiet --no-deps --target .peers/rllte rllte-core==1.0.1 termcolor==2.5.0 pynvml==11.5.0
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) runs build dist .mypy_cache .ruff_cache .pytest_cache
