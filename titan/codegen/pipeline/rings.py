"""Which loads of a tile program share a ring, and who reads it.

Loads of one section that the same operations read are filled and given back together, so they
share stages and barriers. So do one row of numbers and the tile that is loaded above it: the row is
small, and to keep it as long as the tile costs less than barriers of its own. Loads before and
behind the loop are filled once for each work item.
"""

from __future__ import annotations

from dataclasses import dataclass

from titan.codegen.pipeline.model import FormRefused
from titan.codegen.tile.model import TileOperation, TileProgram, Value, ValuePlace


@dataclass(frozen=True, slots=True)
class PipelineRing:
    """`readers` are operations of the body, or of any section where the ring is filled once."""

    name: str
    loads: tuple[TileOperation, ...]
    readers: tuple[str, ...]
    once: bool  # filled once for each work item
    behind: bool = False  # filled behind the loop, whose last iterations hide that
    after: tuple[str, ...] = ()  # the readers behind the loop, in their order

    @property
    def only_after(self) -> bool:
        """Whether nobody reads it before the loop is over."""
        return len(self.after) == len(self.readers)

    @property
    def values(self) -> tuple[Value, ...]:
        """The tiles that lie in a stage, in the order of the loads."""
        return tuple(load.result for load in self.loads if load.result is not None)


def rings_of(tile: TileProgram) -> tuple[PipelineRing, ...]:
    """The rings in the order of their first loads. Raises FormRefused."""
    taken = {operation.name for operation in tile.operations}
    found: list[PipelineRing] = []
    for section in (tile.before, tile.body, tile.after):
        once = section is not tile.body
        groups: dict[tuple[str, ...], list[TileOperation]] = {}
        above: tuple[str, ...] | None = None
        for load in (operation for operation in section if operation.kind == "load"):
            if load.value.rows > 1 or above is None:
                above = _readers(tile, load, once)
            groups.setdefault(above, []).append(load)
        for loads in groups.values():
            name = _fresh(f"ring_{loads[0].name}", taken)
            reading = dict.fromkeys(one for load in loads for one in _readers(tile, load, once))
            behind = section is tile.after
            after = tuple(item.name for item in tile.after if item.name in reading)
            for reader in after:
                if tile.operation(reader).kind != "read":
                    raise FormRefused(f"{reader} takes a loaded tile behind the loop: `read` it")
            found.append(PipelineRing(name, tuple(loads), tuple(reading), once, behind, after))
    return tuple(found)


def _readers(tile: TileProgram, load: TileOperation, once: bool) -> tuple[str, ...]:
    readers = [operation for operation in tile.operations if load.name in operation.operands]
    if not readers:
        raise FormRefused(f"nothing reads what {load.name} loads")
    body = {operation.name for operation in tile.body}
    if not once and any(operation.name not in body for operation in readers):
        raise FormRefused(f"{load.name} is loaded in the loop and read outside of it")
    if load.result is None or load.result.place is not ValuePlace.SHARED:
        raise FormRefused(f"{load.name} does not go through shared memory")
    return tuple(operation.name for operation in readers)


def _fresh(name: str, taken: set[str]) -> str:
    """A name that the tile program does not use."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name
