"""Why a verdict covers only some numbers where the kernel asks for any, and which edit decides all.

The reason is that of the first search, the one for every number; the limits of later, bounded
searches follow from it. Decides nothing: it explains a verdict that the engines have reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from titan.foundation.verdict import Reason, Verdict
from titan.sync import program as ir
from titan.sync.exits import ends_on_meeting
from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    Name,
    Not,
    names_of,
    substitute,
    to_text,
)
from titan.sync.program import SyncProgram, walk
from titan.sync.relays import relays
from titan.sync.weak import asks_for_tensor_fences, weak_operation
from titan.verify.model import EngineReport, Narrowing
from titan.verify.sizes import free_parameters

COMPARED_MAX = 4096  # the largest constant that a search for every number compares with
_COMPARISONS = ("<", "<=", "==", "!=", ">=", ">")

_EDITS = {
    Reason.TIME: "give it more processor time (`--budget-seconds`)",
    Reason.STATES: "give it more states (`--budget-states`), or rings of fewer stages",
    Reason.STEPS: "give it more states (`--budget-states`), or rings of fewer stages",
    Reason.MEMORY: "declare rings of fewer stages: the search holds all its states",
    Reason.MISSING_CORE: (
        "install a C compiler and reinstall TITAN; `titan doctor` lists what is available"
    ),
    Reason.TOO_LARGE: "declare rings of fewer stages, or fewer agents",
    Reason.COUNTED_APART: (
        "number all tiles of a memory (buffers of one `storage` are one), and all phases of a "
        "barrier, by what grows alike, such as `= 2 * w` beside `= 2 * w + k`"
    ),
    Reason.IN_FLIGHT: "drain earlier, so that one agent has fewer operations in flight",
}


def narrowing_of(program: SyncProgram, reports: Sequence[EngineReport]) -> Narrowing | None:
    """Why the open sizes are not covered for every value; None where the program has none."""
    names = tuple(free_parameters(program))
    if not names:
        return None
    every = next(
        (item for item in reports if item.verdict is Verdict.VERIFIED and _any(item)), None
    )
    if every is not None:
        return _unpublished(program, names, decided=True)
    first = next((item for item in reports if item.reason is not None), None)
    if first is None or first.reason is None:
        because = "the chosen engine decides given sizes only"
        edit = "let the explorer decide (`--engine auto`)"
        return Narrowing(names, Reason.NOT_APPLICABLE, because, edit)
    if first.reason is Reason.PUBLICATION:
        return _unpublished(program, names, decided=False)
    edit = _EDITS.get(first.reason) or _edit(program, first)
    return Narrowing(names, first.reason, first.remark, edit)


def _any(report: EngineReport) -> bool:
    return all(values is None for _, values in report.sizes)


def _unpublished(program: SyncProgram, names: tuple[str, ...], *, decided: bool) -> Narrowing:
    """Every interleaving is in order for every number, but not what becomes visible.

    `decided`: what accesses see is decided as well, but perhaps not what CTAs see at their ends.
    """
    if asks_for_tensor_fences(program):
        because = "whether operands are fenced when overwritten is decided for given sizes only"
        return Narrowing(names, Reason.PUBLICATION, because, "take `tensor: order`")
    weak = weak_operation(program)
    if decided and not ends_on_meeting(program):
        because = "what is left to do in another CTA when that ends is decided for given sizes only"
        edit = "let all agents of the cluster synchronise at a cluster barrier last"
        return Narrowing(names, Reason.PUBLICATION, because, edit)
    if weak is None:
        assert relays(program)
        because = "what engines make visible beyond their own work is decided for given sizes only"
        edit = "arrive at the barrier itself after the accesses that its completion is to publish"
        return Narrowing(names, Reason.PUBLICATION, because, edit)
    because = "what relaxed or narrow synchronisation makes visible is decided for given sizes only"
    place = f" on line {weak.span.start_line}" if weak.span else ""
    edit = f"leave out `order: relaxed`, or write `scope: cluster`{place}"
    return Narrowing(names, Reason.PUBLICATION, because, edit)


def _edit(program: SyncProgram, report: EngineReport) -> str:
    """The edit for an expression that has no finite quotient, or for agents that drift apart."""
    if report.reason is Reason.DRIFT or report.obstacle is None:
        from titan.engines.explore.nests import with_own_sizes

        each = with_own_sizes(program, {}).parameters  # sizes that every item may read again
        zero = [item.name for item in each if item.per and item.minimum == 0]
        if zero:
            return f"declare `minimum: 1` for {zero[0]}"
        return "count with counters that every iteration steps by a constant"
    return _edit_of(program, report.obstacle)


def _edit_of(program: SyncProgram, obstacle: Expression) -> str:
    text = to_text(obstacle)
    for part in _parts(obstacle):
        match part:
            case Binary("*", left, right) if names_of(left) and names_of(right):
                return _counter(program, text, part)
            case Binary("//" | "%", _, right) if names_of(right):
                return f"fix `{to_text(right)}` to a number: nothing is divided by an open size"
    match obstacle:
        case Binary(operator, left, right) if operator in _COMPARISONS:
            far = [side.value for side in (left, right) if isinstance(side, Constant)]
            if far and abs(far[0]) > COMPARED_MAX:
                return (
                    f"declare {far[0]} as an open size, or compare with a number "
                    f"up to {COMPARED_MAX}"
                )
            stop = right if names_of(right) else left
            return (
                f"declare the number of iterations as a separate size in place of `{to_text(stop)}`"
            )
    amount = _amount(program, obstacle)
    if amount is not None:
        return f"bound the {amount}, by `min({text}, LARGEST)`: no hardware takes ever more"
    depths = [barrier.stages for barrier in program.barriers]
    stages = max([1, *depths, *(buffer.stages for buffer in program.buffers)])
    if stages > 1:
        return (
            f"write `({text}) % {stages}`"
            if isinstance(obstacle, Binary)
            else (f"write `{text} % {stages}` where `{text}` chooses a stage, in prologues as well")
        )
    return f"use a counter that every iteration steps by a constant in place of `{text}`"


def _amount(program: SyncProgram, obstacle: Expression) -> str | None:
    """What the expression counts, where it is an amount: that chooses no stage."""
    given = {item.name: item.value for item in program.parameters if item.value is not None}
    for role in program.roles:
        for operation in walk(role.body):
            for what, expression in _amounts(operation):
                if substitute(expression, given) == obstacle:
                    return what
    return None


def _amounts(operation: ir.Operation) -> Iterator[tuple[str, Expression]]:
    """The amounts of an operation, by what they count."""
    match operation:
        case ir.Asynchronous(completes=completes):
            yield from (("bytes", completion.bytes) for completion in completes)
        case ir.Arrive(count=count, transaction=size):
            yield from (("bytes", size), ("arrivals", count))
        case ir.ExpectTransaction(bytes=size):
            yield "bytes", size
        case ir.Init(count=count) | ir.QueueArrive(count=count):
            yield "arrivals", count
        case ir.QueueWait(pending=pending):
            yield "operations in flight", pending
        case ir.BarrierSync(threads=threads) | ir.BarrierArrive(threads=threads):
            yield "threads", threads
        case ir.PoolTake(amount=amount) | ir.PoolGive(amount=amount):
            yield "amount", amount


def _counter(program: SyncProgram, text: str, product: Binary) -> str:
    """`w * k_blocks + k`: a counter in its place, and the inner size declared with `per`."""
    open_names = set(free_parameters(program))
    inner = sorted((names_of(product.left) | names_of(product.right)) & open_names)
    outer = sorted((names_of(product.left) | names_of(product.right)) - open_names)
    edit = f"use a counter stepped in the inner loop (`count: {{n: n + 1}}`) in place of `{text}`"
    if inner and outer:
        edit += f", and declare `{inner[0]}: {{any: true, per: {outer[0]}}}`"
    return edit


def _parts(expression: Expression) -> Iterator[Expression]:
    """The expression and all its operands."""
    yield expression
    match expression:
        case Binary(_, left, right):
            yield from _parts(left)
            yield from _parts(right)
        case Not(operand):
            yield from _parts(operand)
        case Constant() | Name():
            return
