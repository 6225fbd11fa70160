# The two commands of the README, and what they need. `make PYTHON=python3.12 VENV=.venv312 test` picks another Python.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test lint format exercises site lite serve bench install-demo install-test install-site clean

demo: install-demo
	$(BIN)/autograder demo

test: install-test
	$(BIN)/python -m pytest

lint: install-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: install-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

exercises: install-demo
	$(BIN)/autograder release --build

# The site, into docs/_build/html. Needs npm once, for MathJax.
site: install-site
	$(BIN)/python docs/vendor.py mathjax
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

bench: install-test
	$(BIN)/python benchmarks/record.py

lite: site
	$(BIN)/python docs/lite.py docs/_build/html/lite

serve: lite
	@echo "http://127.0.0.1:8000 shows the site; ctrl-C ends it."
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory docs/_build/html 8000

install-demo: $(VENV)/demo.stamp
install-test: $(VENV)/test.stamp
install-site: $(VENV)/site.stamp

$(VENV)/demo.stamp: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13) and "minitx needs Python 3.11, 3.12 or 3.13; this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --editable '.[fast,grade]'
	touch $@

$(VENV)/test.stamp: $(VENV)/demo.stamp
	$(PIP) install --quiet --editable '.[fast,grade,dev]'
	touch $@

$(VENV)/site.stamp: $(VENV)/demo.stamp
	$(PIP) install --quiet --editable '.[fast,grade,site]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
