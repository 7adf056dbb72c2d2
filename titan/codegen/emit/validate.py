"""Whether a program conforms to its data types, before anything is done with it.

Types are not enforced where data is made, and emission walks whatever it is given: texts that are
not names, numbers beyond 32 bits, cyclic trees and foreign objects are refused here at once. What a
name or number means is checked where it is used.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING

from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.names import identifier, instance, integer, label, shown
from titan.codegen.tile import model as tiles
from titan.language.kernel.model import Kernel
from titan.sync import program as ir
from titan.sync.expression import BINARY_OPERATORS, Binary, Constant, Name, Not
from titan.sync.parts import effects_of, queue_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

DEPTH_MAX = 120
NODES_MAX = 200_000
_FREE = frozenset(("span", "note"))  # never read
_EMPTY = frozenset(("storage", "function", "by", "reduction", "evict"))  # may say nothing
_WORDS = ("fence_rule", "barrier_init", "exit_in_flight", "unobserved_phase")
_KNOWN: tuple[type, ...] = (
    tiles.TileProgram, tiles.Tensor, tiles.View, tiles.Value, tiles.TileOperation, tiles.Carried,
    tiles.WorkDimension, tiles.ScalarArgument, tiles.Lookup,
    ir.SyncProgram, ir.Role, ir.Parameter, ir.Barrier,
    ir.NamedBarrier, ir.Buffer, ir.Queue, ir.Pool, ir.Policies, ir.Reference, ir.Effect,
    ir.Completion, ir.Operation, Constant, Name, Binary, Not,
)  # fmt: skip


def validate(tile: tiles.TileProgram, kernel: Kernel, program: ir.SyncProgram) -> None:
    """Raises EmissionRefused."""
    for value, kind in ((tile, tiles.TileProgram), (kernel, Kernel), (program, ir.SyncProgram)):
        if not isinstance(value, kind):
            raise EmissionRefused(f"no {kind.__name__}: {shown(value)}")
    walker = _Walker()
    walker.walk(tile, "the tile program", 0)
    walker.walk(program, "the sync program", 0)
    _declared(program)
    _scalars(tile)
    _lookups(tile)
    integer(kernel.ctas, "the number of CTAs", 1, 16)
    for role in kernel.roles:
        instance(role.name, "a role")
        for number in (role.agents, role.threads, role.registers):
            integer(number, f"a number of {role.name}", 0)
    for layout in kernel.placement.layouts:
        instance(layout.name, "a buffer")
        for extent in layout.tile:
            integer(extent, f"an extent of {layout.name}", 1)
        if not isinstance(layout.dtype, str) or not isinstance(layout.swizzle, str):
            raise EmissionRefused(f"{layout.name} has no element type or swizzle")


def _declared(program: ir.SyncProgram) -> None:
    """Buffers and queues that operations use are declared."""
    buffers = {buffer.name for buffer in program.buffers}
    queues = {queue.name for queue in program.queues} | {None}
    for role in program.roles:
        for operation in ir.walk(role.body):
            for effect in effects_of(operation):
                if effect.buffer not in buffers:
                    raise EmissionRefused(f"{effect.buffer} is used and not declared")
                if effect.reduction:
                    raise EmissionRefused(f"{effect.buffer} is added to: no reduction is written")
            if queue_of(operation) not in queues:
                raise EmissionRefused(f"{role.name} uses a queue that is not declared")


def _scalars(tile: tiles.TileProgram) -> None:
    """Scalar arguments that operations use are those of the program."""
    for operation in tile.operations:
        if operation.scalar is not None and operation.scalar not in tile.scalars:
            name = operation.scalar.name
            raise EmissionRefused(f"{operation.name} uses {name}, which is no scalar argument")


def _lookups(tile: tiles.TileProgram) -> None:
    """What memory says steers neither stores nor what there is; the trip count is that of an item,
    and lookups read no output.
    """
    names = {lookup.name for lookup in tile.lookups}
    counts = [dimension.count for dimension in tile.work]
    shapes = [extent for tensor in tile.tensors for extent in tensor.shape]
    if names & tile.names_in(*counts, *shapes):
        raise EmissionRefused("a number of work items or an extent depends on a lookup")
    if tile.loop_variable in tile.names_in(tile.trip_count):
        raise EmissionRefused("the trip count changes with the iteration")
    outputs = {tensor.name for tensor in tile.tensors if tensor.output}
    for lookup in tile.lookups:
        if lookup.view.tensor in outputs:
            raise EmissionRefused(f"the lookup {lookup.name} reads an output")
    for operation in tile.operations:
        offsets = operation.view.offsets if operation.view is not None else ()
        steered = operation.below is None and names & tile.names_in(*offsets)
        if operation.kind == "store" and steered:
            raise EmissionRefused(f"{operation.name} stores where a lookup says")


class _Walker:
    def __init__(self) -> None:
        self.nodes = 0

    def walk(self, value: object, what: str, depth: int) -> None:
        self.nodes += 1
        if depth > DEPTH_MAX or self.nodes > NODES_MAX:
            raise EmissionRefused(f"{what} is nested too deeply or too large")
        match value:
            case None | Enum() | bool():
                return
            case int():
                integer(value, what)
            case float():
                return  # checked where it is spelled
            case str():
                instance(value, what)
            case tuple():
                for inner in value:
                    self.walk(inner, what, depth + 1)
            case _ if isinstance(value, _KNOWN) and is_dataclass(value):
                if not isinstance(value, type):
                    self._fields(value, depth)
            case _:
                raise EmissionRefused(f"{what} holds {shown(value)}")

    def _fields(self, value: DataclassInstance, depth: int) -> None:
        name = type(value).__name__
        for item in fields(value):
            inner, what = getattr(value, item.name), f"`{item.name}` of {name}"
            if item.name in _FREE:
                continue
            kind = str(item.type)
            if not _fits(kind, inner):
                raise EmissionRefused(f"{what} is no {kind}: {shown(inner)}")
            if item.name == "label":
                label(inner)
            elif item.name == "operator":
                if inner not in BINARY_OPERATORS:
                    raise EmissionRefused(f"{what} is unknown: {shown(inner)}")
            elif item.name in _EMPTY and inner == "":
                continue
            elif item.name in _WORDS:
                identifier(inner, what)
            else:
                self.walk(inner, what, depth + 1)


def _fits(kind: str, value: object) -> bool:
    """Whether a value has the simple type that a field says; other types are walked."""
    match kind:
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "bool":
            return isinstance(value, bool)
        case "str":
            return isinstance(value, str) and not isinstance(value, Enum)
    if kind in ("Expression", "Expression | None"):
        empty = value is None and kind.endswith("None")
        return empty or isinstance(value, Constant | Name | Binary | Not)
    if kind == "tuple[tuple[str, int], ...]":
        return isinstance(value, tuple) and all(
            isinstance(pair, tuple)
            and len(pair) == 2
            and _fits("str", pair[0])
            and _fits("int", pair[1])
            for pair in value
        )
    if kind.startswith("tuple[") or kind == "Block":
        return isinstance(value, tuple)
    return True
