# make test does everything from a fresh clone: environment, lint, types, architecture, tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# a file of tests stays in one process, so that what it prepares is prepared once
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

.PHONY: test fast lint types architecture pytest browser install docs lowest audit quickstart picture clean

test: lint types architecture pytest

# what a change is tried with, in under ten minutes on two cores: all but the tests that are marked slow
fast: lint types architecture browser
	$(PYTEST) -m "not slow"

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/pyright

architecture: $(INSTALLED)
	$(BIN)/lint-imports

pytest: $(INSTALLED) browser
	$(PYTEST)

# Debian's Chromium, for the tests that open a report; elsewhere install it yourself, or they are skipped
browser:
	@command -v chromium >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
			apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; } || \
		echo "there is no chromium: tests in a browser will be skipped"

install: $(INSTALLED)

# installed again only when what is to be installed has changed
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[dev,docs,export,medical,serve,demo]" --constraint constraints.txt
	touch $@

# the site, with every example on its pages run: build/site/index.html
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=true OMP_NUM_THREADS=1 $(BIN)/mkdocs build --strict

# the tests of the rooms that everything rests on, with the lowest versions and with the newest, and the page about it
lowest: $(INSTALLED)
	$(PYTHON) -m venv build/lowest
	build/lowest/bin/pip install --quiet --requirement constraints-lowest.txt pytest hypothesis
	$(BIN)/python benchmarks/reliability/compatibility.py --lowest build/lowest/bin/python
	$(BIN)/python benchmarks/reliability/page.py

# known holes in the tested versions, from a database on the network; tests/trust/advisories.txt is what tests know
audit:
	$(PYTHON) -m venv build/audit
	build/audit/bin/pip install --quiet pip-audit
	build/audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip

# a classifier that breaks when the camera turns, and its repair: a small ViT on embedded digits, two CPU cores
quickstart: $(INSTALLED)
	$(BIN)/tokenstn train mnist-mini --primitives=[rotation] --classifier_epochs=12 --epochs=34 --batch_size=64 \
		--out=runs/quickstart

# the picture in the README, from a rectifier trained on the spot
picture: $(INSTALLED)
	$(BIN)/python examples/own_training_loop.py --picture docs/one_image.png

clean:
	rm -rf $(VENV) build .pytest_cache .ruff_cache .import_linter_cache .hypothesis
