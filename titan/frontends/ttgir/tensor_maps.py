"""Tensor maps that a function writes: their memory, pointers to it, and who may use them.

Triton makes a descriptor on the device in scratch memory of the program, 128 bytes each, and moves
on by one in a loop. A map is written, released, acquired, and then named by copies; the program
has it as memory of one stage a map, which copies read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.frontends.ttgir import integers
from titan.frontends.ttgir.effects import ACQUIRE_MAP, CREATE_MAP, HANDLERS, Untranslatable
from titan.frontends.ttgir.model import Block, MemoryType, TtgirOperation
from titan.frontends.ttgir.values import MemoryView, Root, Unknown, Value, is_integer
from titan.sync.expression import ZERO, Expression

MAP_BYTES = 128
MAPS_MAX = 256
SCRATCH = "ttg.global_scratch_alloc"
DESCRIPTOR = "ttng.reinterpret_tensor_descriptor"
POINTER = "tt.addptr"


def makes_maps(block: Block) -> bool:
    """Whether a tensor map is written in the block, or deeper."""
    return any(
        one.name == CREATE_MAP or any(makes_maps(region) for region in one.regions)
        for one in block.operations
    )


def of_the_launch(name: str, type_text: str, maps_are_made: bool) -> Value:
    """An argument that is no number: a descriptor, where the function has some of its own."""
    if not maps_are_made or not type_text.strip().startswith("!tt.tensordesc"):
        return Unknown()
    of = MemoryType((MAP_BYTES,), 8)
    return MemoryView(Root(name, of, 1, maps=True, given=True), ZERO, of)


def map_memory(
    operation: TtgirOperation, roots: list[Root], fresh: Callable[[str], str]
) -> MemoryView:
    """Scratch memory as tensor maps, of which a pointer names the first. Raises Untranslatable."""
    count = max(operation.integer("nbytes", 0) // MAP_BYTES, 1)
    if count > MAPS_MAX:
        raise Untranslatable(f"scratch memory has more than {MAPS_MAX} tensor maps")
    found = MemoryType((count, MAP_BYTES), 8)
    root = next((root for root in roots if root.span == operation.span), None)
    if root is None:
        name = fresh(operation.results[0])
        root = Root(name, found, count, span=operation.span, maps=True)
        roots.append(root)
    return MemoryView(root, ZERO, found)


def map_view(values: list[Value]) -> MemoryView:
    """A descriptor, or a pointer some maps further on. Raises Untranslatable."""
    base = values[0] if values else None
    if not isinstance(base, MemoryView) or not base.root.maps or base.stage is None:
        raise Untranslatable("where the tensor map of a descriptor lies is not followed")
    if len(values) == 1:
        return base
    places = None if not is_integer(values[1]) else _in_maps(values[1])
    if places is None:
        raise Untranslatable("a pointer to a tensor map moves by an unknown number of them")
    return MemoryView(base.root, integers.add(base.stage, places), base.type)


def _in_maps(offset_bytes: Expression) -> Expression | None:
    terms, constant = integers.split(offset_bytes)
    if constant % MAP_BYTES or any(factor % MAP_BYTES for factor in terms.values()):
        return None
    found = {term: factor // MAP_BYTES for term, factor in terms.items()}
    return integers.joined((found, constant // MAP_BYTES))


def maps_without_acquire(block: Block) -> Iterator[Diagnostic]:
    """Maps whose acquire is not the next operation of concern: one for another map is none.

    The engines have one acquire for all maps, so each has to be acquired where it is written.
    """
    concern = [one for one in block.operations if one.name in HANDLERS or one.regions]
    for place, one in enumerate(concern):
        for region in one.regions:
            yield from maps_without_acquire(region)
        found = [(after.name, after.operands[:1]) for after in concern[place + 1 : place + 2]]
        if one.name == CREATE_MAP and found != [(ACQUIRE_MAP, one.operands[:1])]:
            text = "a tensor map is written and not acquired by the next operation"
            yield diagnostic("TTN010", text, one.span)
