"""Runs the native cores under the sanitizers of addresses and of undefined behaviour.

`python tests/sanitized.py FOLDER` builds them into the folder and runs `TESTS` in a process of its
own that has the libraries of the sanitizers loaded; there this module is a plugin of pytest, which
puts the cores built so in the place of the usual ones.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = "TITAN_SANITIZED"
CORES = {
    "explore": "titan.engines.explore._core",
    "scheduling": "titan.scheduling._core",
    "numbers": "titan.isa.numbers._core",
    "simt": "titan.isa.simt._core",
}
TESTS = (
    "tests/engines/explore/test_search.py",
    "tests/engines/explore/test_endings.py",
    "tests/engines/explore/test_agreement.py::test_random_programs[0]",
    "tests/agreement/test_any_number.py::test_every_number_agrees_with_single_numbers",
    "tests/agreement/test_proxy_cases.py",
    "tests/scheduling/test_rau.py",
    "tests/isa/numbers/test_instructions.py",
    "tests/isa/numbers/test_integer_products.py",
    "tests/isa/simt/test_polls.py",
    "tests/isa/simt/test_arms.py",
    "tests/isa/simt/test_lane_order.py",
    "tests/isa/simt/test_map_bytes.py",
    "tests/frontends/test_divided_arms.py",
)
# The first ones say nothing of a running core; the others search for long, take no branch of it
# that those left do not take (gcov), and run in `make test`.
SKIPPED = (
    "compiles_without_a_warning or missing_core or library_loops_are_scheduled_and_hold or "
    "register_awareness or linear_and_galloping"
)


def pytest_configure() -> None:
    """Load the cores of the folder instead of those beside their Python twins."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        return
    for below, name in CORES.items():
        (path,) = Path(folder, below).rglob("_core*.so")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert Path(module.__file__ or "") == path, "the core of the folder is the one that runs"
        sys.modules[name] = module
        importlib.import_module(name.rpartition(".")[0])._core = module


def libraries() -> list[str]:
    """The shared libraries to load first; none where the compiler has no sanitizers."""
    if shutil.which("gcc") is None:
        return []
    found = []
    for name in ("libasan.so", "libubsan.so"):
        command = ["gcc", f"-print-file-name={name}"]
        path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        if not Path(path).is_absolute():
            return []
        found.append(path)
    return found


def main(folder: str) -> int:
    """Build, run, and give the exit code of the tests."""
    preloaded = libraries()
    if not preloaded:
        print("no sanitizers here: the native cores are not run under them")
        return 0
    build = [sys.executable, "hatch_build.py", "--sanitize", folder]
    subprocess.run(build, cwd=ROOT, env={**os.environ, "TITAN_REQUIRE_CORE": "1"}, check=True)
    environment = {
        **os.environ,
        FOLDER: str(Path(folder).resolve()),
        "LD_PRELOAD": " ".join(preloaded),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",  # Python itself does not free all
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
    }
    plugin = ["-p", "tests.sanitized", "-p", "no:cacheprovider"]
    tests = [sys.executable, "-m", "pytest", "-q", *plugin, "-k", f"not ({SKIPPED})", *TESTS]
    return subprocess.run(tests, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
