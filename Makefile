# Everything runs in .venv, which is made on first use and renewed when pyproject.toml changes.

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check
CORPUS := $(VENV)/corpus

.PHONY: demo test corpus lint bench clean

demo: $(VENV)/package.stamp
	$(BIN)/tilewright explain --html demo.html examples/softmax.py

test: $(VENV)/test.stamp
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# Kernels of published packages (docs/packages.md), in an environment of their own.
corpus: $(VENV)/corpus.stamp
	$(CORPUS)/bin/python -m pytest tests/corpus

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

bench: $(VENV)/package.stamp
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/package.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --editable .
	@touch $@

# Torch is optional: the tests that use it skip without it. It is taken only from wheels at hand
# (PIP_FIND_LINKS), since the default one brings gigabytes of CUDA.
$(VENV)/test.stamp: $(VENV)/package.stamp
	$(PIP) install --editable '.[test]'
	@if [ -n "$$PIP_FIND_LINKS" ]; then \
		{ $(PIP) install --no-index --no-deps torch && $(PIP) install torch; } 2>/dev/null \
		|| echo "no torch wheel at hand: tests that use torch are skipped"; \
	fi
	@touch $@

$(VENV)/corpus.stamp: tests/corpus/requirements.txt pyproject.toml
	$(PYTHON) -m venv $(CORPUS)
	$(CORPUS)/bin/python -m pip --quiet --quiet install --editable '.[test]'
	$(CORPUS)/bin/python -m pip --quiet --quiet install --no-deps --requirement $<
	@touch $@
