"""proofs/check.py as a module; it belongs to no package."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def check_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("proofs_check", ROOT / "proofs" / "check.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
