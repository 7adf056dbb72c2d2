"""What blocks of TTGIR hold, and values that change together: helpers of the translation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from titan.frontends.ttgir.effects import HANDLERS, Made
from titan.frontends.ttgir.model import Block, TtgirOperation, memory_types
from titan.frontends.ttgir.values import MemoryView, Unknown, Value, is_integer, is_scalar
from titan.frontends.ttgir.waves import MEETINGS
from titan.sync import program as ir
from titan.sync.expression import Expression, Name, names_of, substitute

# Operations that neither synchronise nor touch memory that another partition may touch.
QUIET = ("arith.", "math.", "ub.", "tt.", "rocdl.sched.", "rocdl.iglp.")
IGNORED = {
    "scf.yield", "scf.condition", "ttg.local_dealloc", "ttg.convert_layout", "tt.return",
    "ttg.warp_yield", "ttg.warp_return", "ttg.async_token", "llvm.intr.assume", "ttg.fp4_to_fp",
    "rocdl.s.setprio",
    # Data in registers and global memory on AMD GPUs.
    "amdg.buffer_load", "amdg.buffer_store", "amdg.buffer_atomic_rmw", "amdg.buffer_atomic_cas",
    "amdg.masked_load", "amdg.masked_store", "amdg.concat", "amdg.extract_slice",
    "amdg.in_thread_transpose", "amdg.scaled_upcast_fp4", "amdg.scaled_upcast_fp8",
    "amdg.scaled_downcast_fp4", "amdg.scaled_downcast_fp8",
}  # fmt: skip

_LATER = "an operation that is not lowered yet"
REFUSED = {"tt.call": "a call"} | {
    f"tt.descriptor_{what}": _LATER for what in ("load", "store", "reduce", "gather", "scatter")
}


def indexed_shapes(block: Block, found: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """The shapes of views that are indexed somewhere."""
    for operation in block.operations:
        if operation.name == "ttg.memdesc_index":
            types = memory_types(operation.types)
            if types:
                found.add(types[0].shape)
        for region in operation.regions:
            indexed_shapes(region, found)
    return found


LOST = "not_followed"


def lost(value: Value) -> str:
    """A name that represents a number that is not followed; using it is refused later."""
    return LOST if not isinstance(value, Unknown) else f"{LOST}: {value.reason}"


def captured(value: Value, shared: set[str]) -> Value:
    """What a partition sees of a value of the role around it: counters are that role's own."""
    number = value.stage if isinstance(value, MemoryView) else value
    if number is None or not is_integer(number) or names_of(number) <= shared:
        return value
    return Unknown("it is a counter of the function around the partition")


def placed(one: ir.Operation, operation: TtgirOperation, label: str) -> ir.Operation:
    """An operation, with all in its branches that has no place yet, at the place of the text."""
    if isinstance(one, ir.Branch):
        then = tuple(placed(x, operation, label) if x.span is None else x for x in one.then)
        return replace(one, then=then, span=operation.span, label=label)
    return replace(one, span=operation.span, label=label)


def gives_integer(operation: TtgirOperation) -> bool:
    """Whether the result is a scalar integer."""
    text = operation.types
    if operation.name == "arith.constant":
        return "dense" not in operation.header and "." not in operation.header.split(":")[0]
    if operation.name == "arith.cmpi":
        return is_scalar(text)
    return is_scalar(text.rpartition("to ")[2])


def loads_number(operation: TtgirOperation) -> bool:
    """Whether one number is loaded from global memory, the same for all threads."""
    element = operation.types.removeprefix("!tt.ptr<").removesuffix(">")
    return operation.name == "tt.load" and is_scalar(element)


def synchronises(block: Block) -> bool:
    """Whether anything in a block is of concern to others."""
    return any(
        operation.name in HANDLERS
        or operation.name in MEETINGS
        or not (operation.name.startswith((*QUIET, "scf.")) or operation.name in IGNORED)
        or any(synchronises(region) for region in operation.regions)
        for operation in block.operations
    )


def yielded(block: Block, environment: dict[str, Value]) -> list[Value]:
    """The values that the block hands to the operation around it; none where it ends otherwise."""
    last = block.operations[-1] if block.operations else None
    if last is None or last.name not in ("scf.yield", "ttg.warp_yield"):
        return []
    return [environment.get(operand, Unknown()) for operand in last.operands]


def at_once(
    new: list[tuple[str, Expression]], fresh: Callable[[str], str], variables: dict[str, int]
) -> Made:
    """Assignments that all read the values from before; a value that is still read is kept."""
    made: Made = []
    pending = [(name, value) for name, value in new if value != Name(name)]
    while pending:
        for place, (name, value) in enumerate(pending):
            others = [other for at, (_, other) in enumerate(pending) if at != place]
            if not any(name in names_of(other) for other in others):
                made.append(ir.Assign(name, value))
                del pending[place]
                break
        else:
            name = pending[0][0]
            kept = fresh(f"{name}_before")
            variables[kept] = 0
            made.append(ir.Assign(kept, Name(name)))
            pending = [(other, renamed(value, name, kept)) for other, value in pending]
    return made


def renamed(value: Expression, old: str, new: str) -> Expression:
    """The expression with one name in place of another."""
    return substitute(value, {old: Name(new)})
