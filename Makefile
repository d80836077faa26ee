# One way to do each thing. Every target works on a fresh clone and is quick when nothing changed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: setup demo demo-ray demo-slurm test soak lint types bench gpu-check clean
.DEFAULT_GOAL := setup

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing the tested versions into $(VENV) (torch among them: some minutes the first time)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup
	$(BIN)/python -m examples.demo

# The demo on a cluster of four raylets, or of four slurmd, all on this machine; then as it is here,
# and both beside each other.
demo-ray demo-slurm: demo-%: setup
	STAVES_REQUIRE_ENGINES=1 $(BIN)/python -m pytest -s tests/engines/$*/test_demo.py

test: lint types
	$(BIN)/python -m pytest -n 4 --dist worksteal -rs -m 'not soak and not cluster'
	$(BIN)/python -m pytest -n 2 --dist loadgroup -rs -m 'not soak and cluster' tests/engines

soak: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal -rs

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

bench: setup
	$(BIN)/python -m benchmarks

gpu-check: setup
	$(BIN)/python -m benchmarks.gpu_check

clean:
	rm -rf $(VENV) demo build dist
