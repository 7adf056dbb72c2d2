"""What a command loads: told by modules, not by the clock."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from titan.foundation.resources import root

KERNEL = str(root("protocols") / "hopper_gemm.yaml")
# None of these answers a question of `titan verify`, and each costs a tenth of a start or more.
FOREIGN = {
    "pysmt", "numpy", "scipy", "networkx", "torch", "ortools", "pysat", "cvc5", "matplotlib",
    "pandas", "pycparser", "asyncio", "concurrent", "multiprocessing", "sqlite3", "xml", "ssl",
    "http", "email", "unittest", "pygments", "rich",
}  # fmt: skip
ROOMS = {
    "titan.frontends", "titan.isa", "titan.litmus", "titan.scheduling", "titan.codegen",
    "titan.package", "titan.validate", "titan.device", "titan.proof", "titan.engines.spin",
}  # fmt: skip


def loaded(statement: str) -> set[str]:
    """The modules that are loaded when the statement has run in a fresh interpreter."""
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_a_plain_verify_loads_what_it_needs() -> None:
    modules = loaded(f"from titan.cli.main import run; run(['verify', {KERNEL!r}])")
    assert not FOREIGN & {name.partition(".")[0] for name in modules}
    others = modules - {"titan.frontends", "titan.frontends.open"}  # what kind of file it is
    assert not [name for name in others if any(name.startswith(room) for room in ROOMS)]
    assert "titan.engines.explore.search" in modules and "z3" in modules  # it did verify


@pytest.mark.parametrize("statement", ["import titan", "from titan.cli.main import run"])
def test_a_start_loads_little(statement: str) -> None:
    modules = loaded(statement)
    assert not {"z3", "ruamel", "cffi", "_cffi_backend"} & modules
    heavy = [name for name in modules if name.startswith("titan.") and "cli" not in name]
    assert all(name.startswith("titan.foundation") for name in heavy), heavy
