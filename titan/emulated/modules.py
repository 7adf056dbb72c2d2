"""Modules of PTX as programs load them: parsed once, whatever loads them again."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass

from titan.emulated.faults import refused
from titan.emulated.source_lines import SourceLines
from titan.foundation.source.span import Source
from titan.frontends.ptx.code import CodeKernel
from titan.frontends.ptx.places import CodePlaces
from titan.isa.ptx.module import Function, Module
from titan.isa.ptx.parse import parse_source
from titan.isa.simt.run import find_entry

KEPT = 64


@dataclass(frozen=True, slots=True)
class LoadedModule:
    """A module of PTX; `name` stands in diagnostics, `digest` names its text."""

    module: Module
    source: Source
    places: CodePlaces
    lines: SourceLines
    digest: str

    def entry(self, name: str | None) -> Function:
        """The entry of a name, or the only one. Raises LaunchError."""
        found, findings = find_entry(self.module, name)
        if found is None:
            raise refused("the entry is not in the module", findings)
        return found

    def kernel(self, function: Function) -> CodeKernel:
        """An entry as the front ends take it."""
        return CodeKernel(self.module, self.source, function)


_LOADED: OrderedDict[tuple[str, str], LoadedModule] = OrderedDict()


def load(text: str, name: str = "kernel.ptx") -> LoadedModule:
    """The module of a text. Raises LaunchError where it cannot be read."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    known = _LOADED.get((digest, name))
    if known is not None:
        _LOADED.move_to_end((digest, name))
        return known
    source = Source(name, text)
    module, findings = parse_source(source)
    if module is None:
        raise refused("the PTX cannot be read", findings)
    places = CodePlaces(module, source)
    made = LoadedModule(module, source, places, SourceLines(places), digest)
    _LOADED[digest, name] = made
    while len(_LOADED) > KEPT:
        _LOADED.popitem(last=False)
    return made
