# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check bench setup clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[test,check]'
	touch $@

demo: $(STAMP)
	$(BIN)/mmrs demo --out runs/demo

test: check
	$(BIN)/pytest --numprocesses 2

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

# The peer's own requirements cannot be met beside ours, so it goes to a folder of its own, without them.
bench: $(STAMP)
	$(BIN)/pip install --quiet --no-deps --target .peers/rllte rllte-core==1.0.1 termcolor==2.5.0 pynvml==11.5.0
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) runs build dist .mypy_cache .ruff_cache .pytest_cache
