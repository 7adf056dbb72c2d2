# `make verify` and `make test` set everything up first; nothing but Python and make is needed, and a C
# compiler for the native cores (without one their slower Python twins are used).

PYTHON ?= python3
VENV := .venv
# What `make quick` runs: under a minute on two cores.
QUICK := tests/test_tidy.py tests/rules tests/docs tests/sync tests/foundation tests/isa tests/cli/test_main.py
# Kernels that are also built in variants, to be timed side by side.
ABLATED := gemm gemm_small_tiles gemm_low_k attention_forward attention_forward_64 softmax_rows
BIN := $(VENV)/bin
BASE := $(VENV)/.titan-installed
DEVELOPMENT := $(VENV)/.titan-development
CORES := $(VENV)/.titan-cores
NATIVE := $(shell find titan -name "*.[ch]" -o -name _build_core.py) titan/engines/explore/layout.py

.PHONY: setup verify test quick lint types pytest heavy sanitize gauss cute bench bench-schedule same report build-all device-prepare device device-quick mutants proofs corpus docs clean

PIP := TITAN_CORES_LATER=1 $(BIN)/python -m pip install --disable-pip-version-check

setup: $(DEVELOPMENT) $(CORES)

# What verification needs: a minute or less, with pip's progress.
$(BASE): pyproject.toml hatch_build.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	$(BIN)/python -m compileall -q titan  # as pip does for what it installs
	touch $@

# Everything that the tests need besides: solvers for second opinions, linters.
$(DEVELOPMENT): $(BASE)
	$(PIP) --no-compile -e '.[dev]'  # modules that tests import are compiled then
	touch $@

$(CORES): $(NATIVE) hatch_build.py | $(BASE)
	$(BIN)/python hatch_build.py
	touch $@

verify: $(BASE) $(CORES)
	$(BIN)/titan verify protocols/hopper_gemm.yaml

test: lint types pytest

# Lint, and the tests that need no search: what to run while editing.
quick: lint
	$(BIN)/python -m pytest -n 2 -m 'not heavy' $(QUICK)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

# A file's tests share what they build, so one process runs them all.
pytest: lint types
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not heavy or sampled'

# The native cores with the sanitizers of addresses and undefined behaviour, under the tests that hold
# them against their twins; says so and does nothing where the compiler has no such libraries.
sanitize: setup
	$(BIN)/python tests/sanitized.py build/sanitized

# All tests, with every planted fault and every random example (tests/sampling.py); with PART=3/12 the
# third of twelve parts of them.
heavy: setup
	TITAN_TESTS=whole TITAN_PART=$(PART) $(BIN)/python -m pytest --timeout 3600

# PyTorch is large, so it lies beside the environment: the other tests show that nothing else needs it.
# A build for CPUs (0.9 GB) where an index has one; `make gauss TORCH=torch` takes the index's own,
# which on Linux brings several GB of CUDA libraries.
TORCH := torch==2.13.0+cpu
build/torch/torch: | $(BASE)
	$(PIP) --quiet --target build/torch '$(TORCH)'

gauss: setup build/torch/torch
	PYTHONPATH=build/torch $(BIN)/python -m pytest -m 'not heavy' tests/scheduling/test_gauss.py \
		tests/scheduling/test_legalise.py tests/runtime/test_torch.py tests/emulated/test_torch_cuda.py

# CuTe DSL (0.3 GB) beside the environment as well; it finds its parts by a folder of its own.
build/cute/nvidia_cutlass_dsl: | $(BASE)
	$(PIP) --quiet --target build/cute 'nvidia-cutlass-dsl>=4.8,<4.9'

cute: setup build/torch/torch build/cute/nvidia_cutlass_dsl
	PYTHONPATH=build/torch:build/cute:build/cute/nvidia_cutlass_dsl/dsl_packages $(BIN)/python -m pytest \
		-m 'heavy or not heavy' tests/emulated/test_cute_dsl.py tests/emulated/test_torch_cuda.py

bench-schedule: setup
	set -e; for table in proofs certificates faithful scale ablation registers robust; do \
		$(BIN)/python benchmarks/bench_schedule.py $$table; done
	test -z "$(INSTANCES)" || $(BIN)/python benchmarks/schedule_instances.py "$(INSTANCES)"

# Verdicts on a folder of real PTX with launches: make corpus CORPUS=FOLDER
corpus: setup
	$(BIN)/python -m benchmarks.real_code "$(CORPUS)" --write

# With CORPUS=FOLDER (real PTX with launches) also what needs such a folder.
WITH_FOLDER = bench_flash_attention bench_numbers bench_real_code
bench: setup
	set -e; for script in $(filter-out $(WITH_FOLDER:%=benchmarks/%.py),$(wildcard benchmarks/bench_*.py)); do \
		$(BIN)/python -m $$(echo $${script%.py} | tr / .); done
	test -z "$(CORPUS)" || { set -e; for name in $(WITH_FOLDER); do \
		$(BIN)/python -m benchmarks.$$name "$(CORPUS)"; done; }

# Verdicts, counts of states and bytes of packages against the stored ones; minutes.
same: setup
	$(BIN)/python -m benchmarks.snapshot check

# Every table and plot of the evaluation plan on one page, filled by what `make device` has written;
# `python -m benchmarks.evaluation measure` measures anew what needs no device.
report: setup
	$(BIN)/python -m benchmarks.evaluation page build/report/index.html

build-all: setup
	$(BIN)/titan build protocols/tiles -o out
	$(BIN)/titan gate out

# Where there are solvers and compilers: what the device suite runs.
device-prepare: setup
	$(BIN)/titan build protocols/tiles -o out/device/packages --target sm_90a
	$(BIN)/titan build protocols/tiles -o out/device/packages --target gfx942
	$(BIN)/titan litmus render litmus -o out/device/litmus
	mkdir -p out/device/probes && cp litmus/probes/* out/device/probes/
	$(BIN)/titan bench --prepare out/device/variants $(ABLATED:%=protocols/tiles/%.yaml)

# Where there is an NVIDIA GPU with CuPy, or an AMD GPU with ROCm, and NumPy; nothing else is needed.
device:
	$(PYTHON) -m titan.device suite out/device

device-quick:
	$(PYTHON) -m titan.device suite out/device --quick

# The machine-checked theory; says so and does nothing where there is no coqc.
proofs:
	$(PYTHON) proofs/check.py build/proofs

mutants: setup
	$(BIN)/titan mutants protocols

# The documentation site, links checked; it lies in build/site.
docs: $(BASE) $(CORES)
	$(PIP) -e '.[docs]'
	$(BIN)/python -m mkdocs build --strict

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .titan out
	find titan tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
	find titan -name "_core*.so" -delete
	rm -f $(CORES)
