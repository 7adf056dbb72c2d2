"""What is to happen when a program imports a module: behind it, before the program goes on.

Programs decide what they import; nothing is imported for the sake of a change to it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

Change = Callable[[ModuleType], None]


@dataclass(slots=True)
class ImportHooks(importlib.abc.MetaPathFinder):
    """Changes to modules by name, while the hooks are installed (a context)."""

    changes: Mapping[str, Change]
    _searching: set[str] = field(default_factory=set)

    def __enter__(self) -> ImportHooks:
        for name, change in self.changes.items():
            if name in sys.modules:
                change(sys.modules[name])
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module that the other finders find, its loader wrapped."""
        if fullname not in self.changes or fullname in self._searching:
            return None
        self._searching.add(fullname)
        try:
            found = importlib.util.find_spec(fullname)
        finally:
            self._searching.discard(fullname)
        if found is not None and found.loader is not None:
            found.loader = _ChangingLoader(found.loader, self.changes[fullname])
        return found


@dataclass(frozen=True, slots=True)
class _ChangingLoader(importlib.abc.Loader):
    """Loads a module as another loader does, and changes it."""

    loader: importlib.abc.Loader
    change: Change

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.change(module)
