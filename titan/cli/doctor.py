"""`titan doctor`: what this installation can do, and what is missing."""

from __future__ import annotations

import importlib
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from titan.cli.exit_code import ExitCode
from titan.foundation.cuda_toolkit import toolkit_program
from titan.foundation.native_core import StaleCoreError, check_core
from titan.foundation.resources import KINDS, checkout, root
from titan.foundation.version import __version__

REQUIRED = (
    "cffi",
    "click",
    "jinja2",
    "networkx",
    "pysmt",
    "rich",
    "ruamel.yaml",
    "z3-solver",
)
# Each with the extra that installs it, and what it is for.
OPTIONAL = {
    "cvc5": ("check", "second solver"),
    "ortools": ("sched", "cross-check of schedules"),
    "python-sat": ("sched", "schedules by SAT"),
    "torch": ("gauss", "differentiable scheduling"),
    "numpy": ("run", "what kernels compute: titan run, titan stress, titan bench"),
    "triton": ("triton", "Triton and Gluon in titan run"),
    "nvidia-cutlass-dsl": ("cute", "CuTe DSL in titan run"),
    "zstandard": ("cuda", "compressed PTX of CUDA programs in titan run"),
    "lz4": ("cuda", "compressed PTX of CUDA programs in titan run"),
    "distributed": ("cluster", "--cluster"),
    "pygls": ("lsp", "titan lsp"),
    "cupy-cuda12x": ("gpu", "runs on a GPU"),
}
TOOLS = {
    "gcc": "builds the native cores and Spin's verifiers",
    "spin": "cross-check by another model checker",
    "nvcc": "compiles generated CUDA, which titan build compares and the emulated device runs;"
    " extra `nvcc`",
    "clang-22": "compiles generated HIP",
    "llvm-objdump-22": "disassembles it, so that it can be compared",
    "g++": "runs generated HIP on the CPU (titan stress --backend emulated)",
}
TOOLKIT = ("nvcc",)  # may come with a wheel, too
CORES = {
    "titan.engines.explore._core": "exploration",
    "titan.scheduling._core": "modulo scheduling",
    "titan.isa.simt._core": "execution of PTX",
    "titan.isa.numbers._core": "its numbers",
}

# Packages beside a core's own whose sources are in it.
BUILT_WITH = {"titan.isa.numbers._core": ("simt",)}

STALE = "built from other sources"


@click.command()
def doctor() -> None:
    """Show versions, native cores, tools and data; exit 2 when something needed is missing."""
    ok = True
    where = "a checkout" if checkout() is not None else "an installed wheel"
    click.echo(f"titan {__version__} from {where}, Python {platform.python_version()}")
    click.echo("\nneeded packages")
    for name in REQUIRED:
        found = _version(name)
        ok = ok and found is not None
        _row(name, found or "MISSING")
    click.echo("\noptional packages")
    for name, (extra, purpose) in OPTIONAL.items():
        _row(name, _version(name) or f"not installed ({purpose}; extra `{extra}`)")
    click.echo("\nnative cores")
    for name, purpose in CORES.items():
        state = _core(name)
        ok = ok and not state.startswith(STALE)
        _row(name, f"{state} ({purpose})")
    click.echo("\ntools")
    for name, purpose in TOOLS.items():
        tool = toolkit_program(name) if name in TOOLKIT else shutil.which(name)
        _row(name, ("found" if tool else "not found") + f" ({purpose})")
    click.echo("\ndata")
    for kind in KINDS:
        there = root(kind).is_dir()
        ok = ok and there
        _row(kind, "found" if there else "MISSING")
    click.get_current_context().exit(ExitCode.VERIFIED if ok else ExitCode.BAD_INPUT)


def _row(name: str, text: str) -> None:
    click.echo(f"  {name:<30}{text}")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _core(module: str) -> str:
    """The state of a native core; without it the slower Python implementation is used."""
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError:
        return "not built, Python is used instead"
    except ImportError as error:
        return f"cannot be loaded, Python is used instead: {error}"
    folder = Path(str(loaded.__file__)).parent
    try:
        check_core(loaded, folder, *(folder.parent / other for other in BUILT_WITH.get(module, ())))
    except StaleCoreError:
        return f"{STALE}, run `make setup`"
    return "loaded"
