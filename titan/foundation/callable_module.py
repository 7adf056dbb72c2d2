"""Modules that can be called: `titan.verify` is a room of the package and a function.

A room keeps its name as a module, `titan.verify.pipeline`; calling it calls a function of
`titan.api`, which is imported then.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType


class _CallableModule(ModuleType):
    """A module whose call is a call of the function of its name in `titan.api`."""

    def __call__(self, *given: object, **options: object) -> object:
        name = self.__name__.rpartition(".")[2]
        return getattr(importlib.import_module("titan.api"), name)(*given, **options)


def make_callable(name: str) -> None:
    """Let the module of this name be called."""
    sys.modules[name].__class__ = _CallableModule
