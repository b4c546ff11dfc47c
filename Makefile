# make demo: set up .venv and search two methods on the embedded data set.
# make test: set up .venv with the dev extras, then lint, type-check and run all tests; a browser,
#            PostgreSQL and an ssh server, which some of them use, are installed where apt-get can do
#            so. The test of a cluster of hosts needs root.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check programs bench clean

# Few trials and short schedules: a look at a search, not a verdict about the methods.
DEMO := --data glyphs --trials 4 --epochs 4

demo: $(VENV)/.installed
	$(BIN)/hsearch tune --method hpl $(DEMO)
	$(BIN)/hsearch tune --method proxy_nca $(DEMO)
	@echo
	$(BIN)/hsearch studies
	@echo
	@echo "Test classes:     $(BIN)/hsearch reproduce STUDY, then $(BIN)/hsearch compare STUDY STUDY"
	@echo "Curves and knobs: $(BIN)/hsearch ui"
	@echo "All commands:     $(BIN)/hsearch --help"

test:
	@$(MAKE) --no-print-directory -j 2 check programs
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

programs:
	@tests/programs.sh

bench: $(VENV)/.installed-dev
	for script in benchmarks/*.py; do $(BIN)/python $$script --check || exit 1; done

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 4))' || \
		{ echo "hsearch needs Python 3.11.4 or newer; name one with: make PYTHON=python3.12 ..."; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --upgrade pip

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -c constraints.txt -e .
	touch $@

# Modules are compiled when first imported: most never are, and compiling all takes pip a minute.
$(VENV)/.installed-dev: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --no-compile -c constraints.txt -e ".[dev]"
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis test-output
