"""Gives every location of a litmus test its place: region, offset, view.

A memory location with a surface lies in an array, one that is read as a constant in constant
memory, every other one where the host allocates. All names of one memory share its place; each name
with a different generic address sees it through another view.
"""

from __future__ import annotations

from dataclasses import replace

from titan.litmus.language import ast
from titan.litmus.language.ast import LitmusTest, Location, Proxy, Space, ThreadPlacement
from titan.litmus.language.condition import observed_terms
from titan.litmus.render.places import (
    SLOT_BYTES,
    TENSOR_TILE_BYTES,
    WGMMA_TILE_BYTES,
    Cell,
    LitmusRegion,
)
from titan.litmus.render.refusal import NotRenderable


class CellAllocation:
    """The places of all locations that a test uses; raises `NotRenderable` where there is none."""

    def __init__(self, test: LitmusTest, numbers: dict[ThreadPlacement, int]) -> None:
        self.test = test
        self.numbers = numbers
        self.cells: dict[str, Cell] = {}
        self.views: dict[LitmusRegion, int] = {LitmusRegion.MEMORY: 1}
        self.global_end = SLOT_BYTES  # the first global slot is where the threads meet
        self.shared_end = self.constant_end = self.texels = 0
        self._used = used_locations(test)
        self._sizes = _sizes(test)
        self._maps = tensor_maps(test)
        self._together = _together(test)
        self._shared_offsets: dict[str, int] = {}
        self._offsets: dict[str, int] = {}
        self._names: dict[str, list[str]] = {}
        for index, location in enumerate(test.locations):
            if location.alias_of is None or location.name in self._used:
                self.cells[location.name] = self._cell(index, location)
        self._images()
        taken = [(cell.cta, cell.offset) for cell in self.cells.values() if cell.shared]
        if len(set(taken)) != len(taken):
            raise NotRenderable("multicast", "a multicast writes one cta twice", test.span)

    def _cell(self, index: int, location: Location) -> Cell:
        if not -(2**31) <= location.initial < 2**31:
            raise NotRenderable("size", "an initial value does not fit 32 bits", location.span)
        home = self.test.location(self.test.memory(location.name)).home
        cta = self.numbers[home] if home is not None else None
        owner = self.test.location(self.test.memory(location.name))
        if (owner.space is Space.SHARED) != (cta is not None):
            raise NotRenderable("space", "a shared location needs a home cta", location.span)
        if cta is not None:
            return self._shared(index, location, cta)
        region = self._region(location)
        memory = self.test.memory(location.name)
        size = self._sizes[location.name]
        tiles = self._tiles(location)
        if memory not in self._offsets:
            self._offsets[memory] = self._take(region, memory)
        return Cell(
            index, location, self._offsets[memory], size, None, region, self._view(location), tiles
        )

    def _take(self, region: LitmusRegion, memory: str) -> int:
        if region is LitmusRegion.ARRAY:
            self.texels += 1
            return self.texels - 1
        if region is LitmusRegion.CONSTANT:
            self.constant_end += SLOT_BYTES
            return self.constant_end - SLOT_BYTES
        names = [n for n in self._sizes if self.test.memory(n) == memory]
        offset = self.global_end
        self.global_end += max(self._sizes[name] for name in names)
        return offset

    def _shared(self, index: int, location: Location, cta: int) -> Cell:
        if location.alias_of is not None:
            raise NotRenderable(
                "shared view", "shared memory has one address and one proxy view", location.span
            )
        key = self._together.get(location.name, location.name)
        if key not in self._shared_offsets:
            members = [name for name, other in self._together.items() if other == key]
            self._shared_offsets[key] = self.shared_end
            self.shared_end += max(self._sizes[name] for name in [*members, location.name])
        offset = self._shared_offsets[key]
        size, tiles = self._sizes[location.name], self._tiles(location)
        return Cell(index, location, offset, size, cta, LitmusRegion.SHARED, tiles=tiles)

    def _region(self, location: Location) -> LitmusRegion:
        memory = self.test.memory(location.name)
        views = {
            other.proxy
            for other in self.test.locations
            if other.name in self._used and self.test.memory(other.name) == memory
        }
        bound = views & {Proxy.SURFACE, Proxy.CONSTANT}
        if len(bound) > 1 or {Proxy.CONSTANT, Proxy.TEXTURE} <= views:
            raise NotRenderable(
                "views", "constant memory cannot be bound to a texture or surface", location.span
            )
        if not bound:
            return LitmusRegion.MEMORY
        if memory in _tiled(self.test):
            raise NotRenderable(
                "views", "bulk copies do not reach an array or constant memory", location.span
            )
        return LitmusRegion.ARRAY if Proxy.SURFACE in bound else LitmusRegion.CONSTANT

    def _view(self, location: Location) -> int:
        """Which of the memory's generic addresses the name has, in the order of the file."""
        address = self.test.address(location.name)
        names = self._names.setdefault(self.test.memory(location.name), [])
        if address not in names:
            names.append(address)
        region = self._region(location)
        if region is LitmusRegion.CONSTANT and len(names) > 1:
            raise NotRenderable("views", "constant memory has one generic address", location.span)
        self.views[region] = max(self.views.get(region, 1), len(names))
        return names.index(address)

    def _tiles(self, location: Location) -> tuple[tuple[int, int], ...]:
        """For a tensor map: its values, each with the global offset of its tile."""
        values = self._maps.get(location.name)
        if values is None:
            return ()
        names = [n for n in self._used if self.test.memory(n) == self.test.memory(location.name)]
        if names != [location.name] or location.is_mbarrier:
            raise NotRenderable("tensor map", "a tensor map is plain memory", location.span)
        found = []
        for value in values:
            found.append((value, self.global_end))
            self.global_end += SLOT_BYTES
        return tuple(found)

    def _images(self) -> None:
        """Room for descriptors of each value that an observed map can come to have."""
        numbers = {
            name: number
            for number, name in enumerate(n for n, cell in self.cells.items() if cell.is_map)
        }
        steps = [step for thread in self.test.threads for step in thread.instructions]
        for name in sorted(numbers, key=numbers.__getitem__):
            if name not in observed_locations(self.test) or self.cells[name].shared:
                continue
            copies = (s for s in steps if isinstance(s, ast.DescriptorCopy))
            origins = dict.fromkeys([name, *(s.source for s in copies if s.destination == name)])
            images = []
            for origin in origins:
                for value, tile in self.cells[origin].tiles:
                    images.append((value, self.global_end, numbers[origin], tile))
                    self.global_end += SLOT_BYTES
            self.cells[name] = replace(self.cells[name], images=tuple(images))


def used_locations(test: LitmusTest) -> set[str]:
    """Names in instructions, the condition and the filter."""
    names = {name for thread in test.threads for s in thread.instructions for name in named(s)}
    return names | observed_locations(test)


def observed_locations(test: LitmusTest) -> set[str]:
    """Names of locations in the condition and the filter."""
    names: set[str] = set()
    for condition in (test.condition, test.filter):
        if condition is not None:
            terms = observed_terms(condition)
            names |= {t.location for t in terms if isinstance(t, ast.FinalMemory)}
    return names


def named(step: ast.LitmusInstruction) -> set[str]:
    """The locations that an instruction names."""
    names: set[str] = set()
    for attribute in ("location", "source", "tensormap"):
        name = getattr(step, attribute, None)
        if name is not None:
            names.add(name)
    if isinstance(step, ast.BulkCopy):
        names |= {*step.destinations, *step.barriers}
    if isinstance(step, ast.AsyncCopy | ast.DescriptorCopy):
        names.add(step.destination)
    if isinstance(step, ast.AsyncStore):
        names.add(step.barrier)
    return names


def tensor_maps(test: LitmusTest) -> dict[str, list[int]]:
    """Locations that hold a tensor map -> the values that a thread or the start gives them."""
    maps: dict[str, list[int]] = {}
    steps = [step for thread in test.threads for step in thread.instructions]
    for step in steps:
        if isinstance(step, ast.BulkCopy) and step.tensormap is not None:
            maps.setdefault(step.tensormap, [])
        if isinstance(step, ast.ProxyFence) and step.location is not None:
            maps.setdefault(step.location, [])
        if isinstance(step, ast.DescriptorCopy):
            maps.setdefault(step.destination, [])
            maps.setdefault(step.source, [])
    for step in steps:
        if not _of_maps(step) and not maps.keys().isdisjoint(named(step)):
            raise NotRenderable(
                "tensor map", "a tensor map is edited, copied, fenced, or used by a copy", step.span
            )
    for name, values in maps.items():
        values.append(test.location(name).initial)
        for step in steps:
            if isinstance(step, ast.Store) and step.location == name:
                if isinstance(step.value, ast.Register):
                    raise NotRenderable(
                        "tensor map", "a tensor map gets a value that is computed", step.span
                    )
                values.append(step.value)
    return {name: list(dict.fromkeys(values)) for name, values in maps.items()}


def _of_maps(step: ast.LitmusInstruction) -> bool:
    """Whether the instruction may name tensor maps; what is wrong with it is reported elsewhere."""
    kinds = ast.Load | ast.Store | ast.ProxyFence | ast.DescriptorCopy
    return isinstance(step, kinds) or (
        isinstance(step, ast.BulkCopy) and step.tensormap is not None
    )


def _tiled(test: LitmusTest) -> set[str]:
    """Memory that bulk copies read or write."""
    return {
        test.memory(name)
        for thread in test.threads
        for step in thread.instructions
        if isinstance(step, ast.BulkCopy | ast.MatrixRead | ast.AsyncCopy)
        for name in named(step)
    }


def _sizes(test: LitmusTest) -> dict[str, int]:
    """Bytes of each location: a slot, or what the largest bulk copy or `wgmma` touches."""
    sizes = {location.name: SLOT_BYTES for location in test.locations}
    for thread in test.threads:
        for step in thread.instructions:
            touched: dict[str, int] = {}
            if isinstance(step, ast.BulkCopy):
                names = [*step.destinations, *([step.source] if step.source else [])]
                size = TENSOR_TILE_BYTES if step.tensormap is not None else step.size
                touched = dict.fromkeys(names, size)
            elif isinstance(step, ast.MatrixRead):
                touched = {step.location: WGMMA_TILE_BYTES}
            for name, size in touched.items():
                sizes[name] = max(sizes[name], -(-size // SLOT_BYTES) * SLOT_BYTES)
    return sizes


def _together(test: LitmusTest) -> dict[str, str]:
    """Locations that must share an offset -> the name that represents all of them."""
    leader: dict[str, str] = {}
    for thread in test.threads:
        for step in thread.instructions:
            if isinstance(step, ast.BulkCopy) and len(step.destinations) > 1:
                for names in (step.destinations, step.barriers):
                    merged = {leader.get(name, name) for name in names}
                    chosen = min(merged)
                    leader |= dict.fromkeys(names, chosen)
                    leader |= {n: chosen for n, old in leader.items() if old in merged}
    return leader
