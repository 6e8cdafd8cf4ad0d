# Each target makes the environment that it needs; nothing has to be installed by hand.
PYTHON ?= python3
PYTEST_ARGS ?=
DEMO_ARGS ?=
DROP_IN_ARGS ?=
PERF_ARGS ?=

PADDLE := paddlepaddle==3.3.1
PADDLE26 := paddlepaddle-gpu==2.6.2
# What an installed copy is made from: a change in one of these installs it anew.
PACKAGE := setup.py pyproject.toml MANIFEST.in $(shell find csrc paddle_ops -type f \
	! -name '*.so' ! -name '*.pyc' ! -name _build_info.json)
CXX_FILES := $(shell find $(wildcard csrc tests tools) -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh')
LIST_EXTRA := import sys, tomllib; \
	print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies'][sys.argv[1]])

.PHONY: test test-paddle26 test-large demo perf perf-check cuda-check docs drop-in lint format clean

test: .venv/package  ## all tests but the large ones, with Paddle 3
	.venv/bin/pytest $(PYTEST_ARGS)

# Plain tracebacks: pytest's own print the arguments, and Paddle 2.6 crashes on printing a Tensor
# that was never filled.
test-paddle26: .venv26/package  ## the same tests on the CPU kernels of Paddle 2.6
	.venv26/bin/pytest --tb=native -m 'not large and not jit' $(PYTEST_ARGS)

test-large: .venv/package  ## sizes beyond 2^31: up to 24 GiB of memory
	.venv/bin/pytest -m large $(PYTEST_ARGS)

demo: .venv/paddle .venv/extra-demo  ## trains a small network on the operators, compiled just in time
	PADDLE_OPS_JIT=1 .venv/bin/python -m examples.digits $(DEMO_ARGS)

drop-in: .venv/package .venv/paddledet  ## PaddleDetection's networks, before and after patch_paddle
	.venv/bin/python -m examples.detection $(DROP_IN_ARGS)

perf: .venv/package .venv/extra-perf  ## times the operators beside Paddle's own
	.venv/bin/python -m tools.perf $(PERF_ARGS)

perf-check: .venv/package  ## a few ratios to Paddle's own operators, against what they were
	.venv/bin/python -m tools.perf --check-regression --repeat 5

docs: .venv/package .venv/extra-docs  ## README.md, docs/ and the reference as web pages: build/docs
	.venv/bin/sphinx-build -W --keep-going -q docs build/docs

cuda-check: .venv/package .venv/extra-cuda-check  ## what nvcc and older compilers make of the CUDA sources
	.venv/bin/pytest -q tests/kernels/cuda/test_compile.py
	.venv/bin/python -m tools.cuda_check

lint: .venv/extra-lint  ## changes nothing; `make format` repairs what can be repaired
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/clang-format --dry-run --Werror $(CXX_FILES)

format: .venv/extra-lint
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .
	.venv/bin/clang-format -i $(CXX_FILES)

clean:
	rm -rf .venv .venv26 build dist *.egg-info paddle_ops/*.so paddle_ops/_build_info.json

# Empty files that stand for what an environment has in it.
.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv26/bin/python:
	$(PYTHON) -m venv .venv26

.venv/paddle: | .venv/bin/python
	.venv/bin/python -m pip install '$(PADDLE)'
	touch $@

.venv26/paddle: | .venv26/bin/python
	.venv26/bin/python -m pip install '$(PADDLE26)' 'numpy<2'
	touch $@

.venv/package: .venv/paddle $(PACKAGE)
	.venv/bin/python -m pip install '.[test]'
	touch $@

.venv26/package: .venv26/paddle $(PACKAGE)
	.venv26/bin/python -m pip install '.[test]' 'numpy<2'
	touch $@

# Without its dependencies: it pins releases of NumPy and OpenCV that no longer install here.
.venv/paddledet: .venv/extra-detection
	.venv/bin/python -m pip install --no-deps paddledet==2.6.0
	touch $@

# An extra's requirements without the package: the demo compiles for itself, lint needs no binary.
.venv/extra-%: pyproject.toml | .venv/bin/python
	.venv/bin/python -m pip install $$(.venv/bin/python -c "$(LIST_EXTRA)" $*)
	touch $@
