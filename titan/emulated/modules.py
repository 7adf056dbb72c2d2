"""Modules of PTX as programs load them: parsed once, whatever loads them again."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from titan.emulated.faults import refused
from titan.emulated.memory import OwnMemory
from titan.emulated.source_lines import SourceLines
from titan.foundation.source.span import Source
from titan.frontends.ptx.code import CodeKernel
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.verify_code import CodeOptions, verify_launch
from titan.isa.numbers.device import LaunchShape
from titan.isa.ptx.module import Function, Module
from titan.isa.ptx.parse import parse_source
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.launch import Dimensions, Launch, ModuleMemory
from titan.isa.simt.layout import MODULE_BASE, variables_of
from titan.isa.simt.run import find_entry
from titan.verify.model import Finding

KEPT = 64
Loaded = TypeVar("Loaded")


@dataclass(frozen=True, slots=True)
class ModuleVariable:
    """A variable of a module in memory: its address and bytes."""

    address: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ResidentVariables:
    """The variables of a module that a program has loaded; None where there are none of a kind.

    Constant ones are global memory for the host, and each launch gets their bytes.
    """

    globals: ModuleVariable | None
    constants: ModuleVariable | None
    named: Mapping[str, ModuleVariable]

    def memory(self, read: Callable[[int, int], bytes]) -> ModuleMemory:
        """What a launch gets of them; `read` gives bytes of global memory."""
        start = MODULE_BASE if self.globals is None else self.globals.address
        held = self.constants
        return ModuleMemory(start, b"" if held is None else read(held.address, held.size_bytes))


@dataclass(frozen=True, slots=True)
class LoadedModule:
    """A module of PTX; `name` stands in diagnostics, `digest` names its text. `resident`: where its
    variables are; None: they have their initial values in each launch.
    """

    module: Module
    source: Source
    places: CodePlaces
    lines: SourceLines
    digest: str
    resident: ResidentVariables | None = None

    def entry(self, name: str | None) -> Function:
        """The entry of a name, or the only one. Raises LaunchError."""
        found, findings = find_entry(self.module, name)
        if found is None:
            raise refused("the entry is not in the module", findings)
        return found

    def defined(self, name: str) -> Function | None:
        """The entry of a name that has a body."""
        found = (one for one in self.module.entries() if one.name == name and not one.declared)
        return next(found, None)

    def kernel(self, function: Function) -> CodeKernel:
        """An entry as the front ends take it."""
        return CodeKernel(self.module, self.source, function)

    def decided(self, function: Function, launch: Launch, options: CodeOptions) -> Finding:
        """The verdict on a launch of an entry."""
        return verify_launch(self.kernel(function), launch, options, self.places)

    def variables(self, read: Callable[[int, int], bytes]) -> ModuleMemory | None:
        """What a launch gets of the variables that a program has loaded."""
        return None if self.resident is None else self.resident.memory(read)


def shape_of(
    function: Function, grid: Sequence[int], block: Sequence[int], cluster: Sequence[int],
    shared_bytes: int,
) -> LaunchShape:  # fmt: skip
    """The shape of a launch that a program asks for, with what the entry itself requires."""
    required = function.performance.get("reqnctapercluster")
    if required and tuple(cluster) == (1, 1, 1):
        cluster = (*required, 1, 1)[:3]
    if "blocksareclusters" in function.performance:  # the grid of such a launch counts them
        grid = tuple(x * y for x, y in zip(grid, cluster, strict=True))
    return LaunchShape(_three(grid), _three(block), _three(cluster), shared_bytes)


def _three(values: Sequence[int]) -> Dimensions:
    x, y, z = values
    return x, y, z


def made_resident(loaded: LoadedModule, memory: OwnMemory) -> LoadedModule:
    """The module with memory for its variables, which lives as long as that of the program."""
    sizes = variables_of(loaded.module, 0)
    blocks = [
        ModuleVariable(memory.allocate(len(data), data), len(data)) if data else None
        for data in (sizes.globals, sizes.constants)
    ]
    starts = {
        space: 0 if block is None else block.address
        for space, block in zip((MemorySpace.GLOBAL, MemorySpace.CONSTANT), blocks, strict=True)
    }
    found = variables_of(loaded.module, starts[MemorySpace.GLOBAL])
    for block, data in zip(blocks, (found.globals, found.constants), strict=True):
        if block is not None:
            memory.write(block.address, data)
    named = {
        name: ModuleVariable(starts[space] + offset, size)
        for name, (space, offset, size) in found.places.items()
    }
    return replace(loaded, resident=ResidentVariables(blocks[0], blocks[1], named))


@dataclass(slots=True)
class KeptTexts(Generic[Loaded]):
    """What `read` makes of a text and its digest: made once, while it is among the last `KEPT`."""

    read: Callable[[Source, str], Loaded]
    known: OrderedDict[tuple[str, str], Loaded] = field(default_factory=OrderedDict)

    def load(self, text: str, name: str) -> Loaded:
        """What is known of a text under a name; raises as `read` does, and keeps nothing then."""
        digest = hashlib.sha256(text.encode()).hexdigest()
        known = self.known.get((digest, name))
        if known is not None:
            self.known.move_to_end((digest, name))
            return known
        made = self.known[digest, name] = self.read(Source(name, text), digest)
        while len(self.known) > KEPT:
            self.known.popitem(last=False)
        return made


def _read(source: Source, digest: str) -> LoadedModule:
    module, findings = parse_source(source)
    if module is None:
        raise refused("the PTX cannot be read", findings)
    places = CodePlaces(module, source)
    return LoadedModule(module, source, places, SourceLines(places), digest)


_MODULES = KeptTexts(_read)


def load(text: str, name: str = "kernel.ptx") -> LoadedModule:
    """The module of a text, parsed once. Raises LaunchError where it cannot be read."""
    return _MODULES.load(text, name)
