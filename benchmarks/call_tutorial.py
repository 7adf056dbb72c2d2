"""Under `titan run`: load a tutorial of Triton, call one of its tests, with arguments by name.

    titan run call_tutorial.py FILE [FUNCTION [NAME=EXPRESSION ...]]

What a tutorial measures when it is loaded is left out: there is nothing to measure. Its tests have
one configuration of each kernel where they know of pytest.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

import triton.testing


class WithoutMeasuring(importlib.machinery.SourceFileLoader):
    """Leaves out the module's own calls of functions that are named for benchmarks."""

    def source_to_code(self, data, path, *, _optimize=-1):  # type: ignore[no-untyped-def,override]
        tree = ast.parse(data)
        tree.body = [
            line for line in tree.body
            if not (
                isinstance(line, ast.Expr) and isinstance(line.value, ast.Call)
                and "benchmark" in ast.unparse(line.value.func)
            )
        ]  # fmt: skip
        return compile(tree, path, "exec", dont_inherit=True)  # its own future statements


def main() -> None:
    """Call it."""
    path, *called = sys.argv[1:]
    os.environ.setdefault("PYTEST_VERSION", "-")
    triton.testing.Mark.run = lambda *_, **__: None
    sys.path.insert(0, str(Path(path).resolve().parent))
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_loader("tutorial", WithoutMeasuring("tutorial", path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tutorial"] = module
    spec.loader.exec_module(module)
    if not called:
        return
    name, *given = called
    arguments = {}
    for text in given:
        key, _, value = text.partition("=")
        arguments[key] = eval(value, vars(module))  # from the table of `triton_tutorials.py`
    getattr(module, name)(**arguments)


if __name__ == "__main__":
    main()
