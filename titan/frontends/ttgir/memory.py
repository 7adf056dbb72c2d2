"""Allocations of TTGIR and views of them: stages, other shapes of the same bytes, parts.

Triton places allocations later: which may share memory, `lifetimes` says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from titan.frontends.ttgir import integers
from titan.frontends.ttgir.blocks import indexed_shapes
from titan.frontends.ttgir.effects import HANDLERS, Untranslatable
from titan.frontends.ttgir.lifetimes import Below, ended_before
from titan.frontends.ttgir.model import Block, MemoryType, TtgirOperation, memory_types
from titan.frontends.ttgir.tensor_maps import DESCRIPTOR, POINTER, SCRATCH, map_memory, map_view
from titan.frontends.ttgir.values import MemoryView, Root, Value, is_integer, why_unknown

STAGES_MAX = 256
ALLOCATIONS = ("ttg.local_alloc", "ttng.tmem_alloc", SCRATCH)
SAME_BYTES = ("ttg.memdesc_trans", "ttg.memdesc_reshape")
VIEWS = ("ttg.memdesc_index", "ttg.memdesc_subslice", DESCRIPTOR, *SAME_BYTES)
SELECT = "arith.select"
KNOWN = (*HANDLERS, *ALLOCATIONS, *VIEWS)


@dataclass(slots=True)
class Allocations:
    """The allocations of a function, by the operations that make them.

    `indexed`: the shapes of views that are indexed somewhere, so that the first extent of an
    allocation counts stages; `below`: which have ended when one is made; `fresh` gives a name that
    nothing else has.
    """

    roots: list[Root]
    indexed: set[tuple[int, ...]]
    below: Below
    fresh: Callable[[str], str]

    @classmethod
    def of(cls, body: Block, roots: list[Root], fresh: Callable[[str], str]) -> Allocations:
        """Those of a function, none made yet; their roots are added to `roots`."""
        return cls(roots, indexed_shapes(body, set()), ended_before(body), fresh)

    def ended(self, operation: TtgirOperation) -> list[Root]:
        """The allocations that the one which an operation makes may be laid on."""
        spans = self.below.get(operation.span, [])
        return [root for root in self.roots if root.span in spans]

    def allocate(self, operation: TtgirOperation) -> MemoryView:
        """All of what an operation allocates. Raises Untranslatable."""
        if operation.name == SCRATCH:
            return map_memory(operation, self.roots, self.fresh)
        types = memory_types(operation.types)
        if not types:
            raise Untranslatable("an allocation without a type of memory")
        found = types[-1]
        stages = found.shape[0] if found.shape in self.indexed and len(found.shape) > 1 else 1
        if stages > STAGES_MAX:
            raise Untranslatable(f"an allocation has more than {STAGES_MAX} stages")
        for root in self.roots:
            if root.span == operation.span:
                return MemoryView(root, None, found)
        root = Root(self.fresh(operation.results[0]), found, stages, span=operation.span)
        self.roots.append(root)
        return MemoryView(root, None, found)


def makes_view(name: str, values: list[Value]) -> bool:
    """Whether an operation makes a view: by its name, or because it moves or selects views."""
    if name == SELECT:
        return len(values) == 3 and isinstance(values[1], MemoryView) and values[1].like(values[2])
    return name in VIEWS or (name == POINTER and isinstance(values[0], MemoryView))


def view_of(operation: TtgirOperation, values: list[Value]) -> MemoryView:
    """The view that an operation makes (`makes_view`). Raises Untranslatable."""
    base = values[0] if values else None
    if operation.name in (DESCRIPTOR, POINTER):
        return map_view(values)
    if operation.name == SELECT:
        return _selected(values)
    types = memory_types(operation.types)
    if not isinstance(base, MemoryView) or not types:
        raise Untranslatable("what is viewed is not memory that the analysis tracks")
    if operation.name == "ttg.memdesc_index":
        return _stage(base, values, types)
    if operation.name == "ttg.memdesc_subslice":
        partial = base.partial or types[-1].shape != base.type.shape
        if base.stage is None and base.root.stages > 1:
            raise Untranslatable("a part of several stages is not supported")
        return replace(base, type=types[-1], partial=partial)
    order = operation.attributes.get("order", "0").rpartition(":")[2].strip()
    whole = base.stage is None and base.root.stages > 1
    if whole and (operation.name != "ttg.memdesc_trans" or not order.startswith("0")):
        raise Untranslatable("stages that change their address are not supported")
    return replace(base, type=types[-1])


def _selected(values: list[Value]) -> MemoryView:
    """One of two views that differ in their stage at most."""
    condition, left, right = values
    assert isinstance(left, MemoryView) and isinstance(right, MemoryView)
    if left.stage is None or right.stage is None or left == right:
        return left
    if not is_integer(condition):
        raise Untranslatable(f"which of two views is taken is not known: {why_unknown(condition)}")
    return replace(left, stage=integers.select(condition, left.stage, right.stage))


def _stage(base: MemoryView, values: list[Value], types: list[MemoryType]) -> MemoryView:
    index = values[1] if len(values) > 1 else None
    if index is None or not is_integer(index):
        reason = "it is missing" if index is None else why_unknown(index)
        raise Untranslatable(f"an index is not known: {reason}")
    if base.stage is not None:
        raise Untranslatable("a stage of memory is indexed again, which is not supported")
    if types[0].shape[0] != base.root.stages:
        raise Untranslatable("what is indexed has another number of stages than its allocation")
    return replace(base, stage=index, type=types[-1])
