"""From the roles of a function to a kernel: sizes, counters that matter, declarations.

A *size* is a number that depends on arguments of the kernel alone, such as `(K + 63) // 64`; each
becomes a parameter of the program that may be any number. Where several rest on one argument, they
are taken to be independent: that leaves out no run, and what it adds is reported where it refutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from titan.foundation.diagnostics.model import Diagnostic, diagnostic
from titan.foundation.source.span import Span
from titan.frontends.ttgir.blocks import LOST
from titan.frontends.ttgir.copies import without_copies
from titan.frontends.ttgir.drafts import FunctionDraft, RoleDraft
from titan.frontends.ttgir.effects import CLUSTER, QUEUES, Made
from titan.frontends.ttgir.integers import holds_only, joined, least, split
from titan.frontends.ttgir.last_trip import with_last_trips_behind
from titan.frontends.ttgir.model import TtgirFunction
from titan.frontends.ttgir.values import Root
from titan.frontends.ttgir.waves import WORK_GROUP
from titan.language.kernel.model import Kernel, RoleShape
from titan.sync import program as ir
from titan.sync.expression import (
    Binary,
    Constant,
    Expression,
    Name,
    Not,
    binary,
    names_of,
    to_text,
)
from titan.sync.parts import queue_of

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Assembled:
    """The kernel, what each of its parameters is in terms of the arguments, and remarks.

    `sums`: products that add to what their accumulator holds, each time or (False) at least at
    first. `decided`: parameters that are not
    0 where a condition holds, with the branch on it.
    """

    kernel: Kernel
    sizes: tuple[tuple[str, Expression], ...]
    notes: tuple[str, ...] = ()
    sums: Mapping[Span, bool] = field(default_factory=dict)
    decided: Mapping[str, Span] = field(default_factory=dict)


def assemble(
    drafts: Sequence[FunctionDraft], function: TtgirFunction, path: str, target: str,
    policies: ir.Policies, either_way: bool = False,
) -> tuple[Assembled | None, list[Diagnostic]]:  # fmt: skip
    """The kernel of drafts without faults, or the numbers in them that are not known.

    `either_way`: the drafts are so (`translate.draft`), and ends of loops are sizes of their own.
    """
    written = [(draft, role) for draft in drafts for role in draft.roles]
    for _, role in written:
        role.body = _needed(role)
    lost = [item for _, role in written for item in _lost(role)]
    if lost:
        return None, list(dict.fromkeys(lost))
    sizes = _Sizes({name for draft in drafts for name in draft.arguments}, either_way)
    for _, role in written:
        for operation in ir.walk(tuple(role.body)):
            for expression in _expressions(operation):
                sizes.note(expression)
    roles = []
    for draft, role in written:
        body = _fenced(_changed(tuple(role.body), sizes))
        minimums = {name: low for name, _, low in sizes.found}
        body = without_copies(with_last_trips_behind(body, minimums))
        used = {one.variable for one in ir.walk(body) if isinstance(one, ir.Assign)}
        variables = tuple((name, first) for name, first in role.variables.items() if name in used)
        name, cta = draft.place.role(role.name), draft.place.cta
        roles.append(ir.Role(name, body, 1, role.threads, cta=cta, variables=variables))
    barriers, buffers = _declared(drafts)
    program = ir.SyncProgram(
        function.name,
        target,
        tuple(roles),
        tuple(ir.Parameter(name, None, low) for name, _, low in sizes.found),
        barriers,
        _named_barriers(drafts, roles),
        buffers,
        tuple(QUEUES[name] for name in QUEUES if name in _queues(roles)),
        policies=policies,
        span=function.span,
    )
    shapes = tuple(RoleShape(role.name, 1, role.threads) for role in roles)
    kernel = Kernel(
        function.name, target, path, (), shapes, program=program, span=function.span,
        source="TTGIR",
        ctas=len({draft.place.cta for draft in drafts}),
        placed=False,  # Triton places barriers of threads, and memory, when it lowers
    )  # fmt: skip
    sums: dict[Span, bool] = {}
    for span, each in (item for draft in drafts for item in draft.sums.items()):
        sums[span] = sums.get(span, True) and each
    meanings = tuple((name, value) for name, value, _ in sizes.found)
    decided = {name: span for draft in drafts for name, span in draft.decided.items()}
    loaded = {name: span for draft in drafts for name, span in draft.loaded.items()}
    notes = tuple(
        f"{name} is what line {span.start_line} loads, any number from 0 on"
        for name, span in loaded.items()
        if any(name in names_of(value) for _, value in meanings)
    )
    return Assembled(kernel, meanings, notes, sums, decided), []


def _declared(
    drafts: Sequence[FunctionDraft],
) -> tuple[tuple[ir.Barrier, ...], tuple[ir.Buffer, ...]]:
    """What each CTA has for itself; halves of its waves have the same."""
    barriers: dict[str, ir.Barrier] = {}
    buffers: dict[str, ir.Buffer] = {}
    for draft in drafts:
        place = draft.place
        for root in draft.roots:
            name = place.named(root.name)
            if root.barrier and root.led:
                barriers[name] = ir.Barrier(
                    name, root.count, root.stages, False, cta=place.cta, span=root.span
                )
            elif not root.barrier:
                buffers[name] = ir.Buffer(
                    name,
                    root.stages,
                    parts=1 if place.half is None else 2,
                    space=_space_of(root),
                    bytes_per_stage=root.bytes_here // root.stages,
                    cta=place.cta,
                    span=root.span,
                )
    return tuple(barriers.values()), tuple(buffers.values())


def _space_of(root: Root) -> ir.Space:
    if root.maps:
        return ir.Space.GLOBAL
    return ir.Space.TENSOR if root.type.tensor else ir.Space.SHARED


def _named_barriers(
    drafts: Sequence[FunctionDraft], roles: Sequence[ir.Role]
) -> tuple[ir.NamedBarrier, ...]:
    """The barriers of partitions, of the waves of a work-group, and of the cluster."""
    named = [ir.NamedBarrier(name) for draft in drafts for name in draft.meetings]
    met = {
        operation.barrier.name
        for role in roles
        for operation in ir.walk(role.body)
        if isinstance(operation, ir.BarrierSync)
    }
    named += [ir.NamedBarrier(WORK_GROUP)] if WORK_GROUP in met else []
    named += [ir.NamedBarrier(CLUSTER, scope=ir.Scope.CLUSTER)] if CLUSTER in met else []
    return tuple(named)


def _queues(roles: list[ir.Role]) -> set[str]:
    found = set()
    for role in roles:
        for operation in ir.walk(role.body):
            queue = queue_of(operation)
            if queue is not None:
                found.add(queue)
    return found


# ------------------------------------------------------------------------------- counters


def _expressions(operation: ir.Operation) -> Iterator[Expression]:
    """What decides something about an operation; of an assignment nothing."""
    match operation:
        case ir.Loop():
            yield operation.start
            yield operation.stop
        case ir.Branch():
            yield operation.condition
        case ir.Access() | ir.Asynchronous():
            for effect in operation.effects:
                yield effect.stage
            if isinstance(operation, ir.Asynchronous):
                for completion in operation.completes:
                    yield completion.barrier.index
                    yield completion.bytes
        case ir.Wait():
            yield operation.barrier.index
            yield operation.parity
        case ir.Init() | ir.Invalidate() | ir.Arrive() | ir.QueueArrive():
            yield operation.barrier.index


def _needed(role: RoleDraft) -> Made:
    """The body without assignments to counters that nothing depends on, and empty branches."""
    body = tuple(role.body)
    needed: set[str] = set()
    while True:
        before = len(needed)
        for operation in ir.walk(body):
            if isinstance(operation, ir.Assign):
                if operation.variable in needed:
                    needed |= names_of(operation.value)
            elif not isinstance(operation, ir.Branch | ir.Loop) or _matters(operation, needed):
                for expression in _expressions(operation):
                    needed |= names_of(expression)
        if len(needed) == before:
            return list(_kept(body, needed))


def _matters(operation: ir.Branch | ir.Loop, needed: set[str]) -> bool:
    """Whether anything inside is kept."""
    return any(
        inner.variable in needed if isinstance(inner, ir.Assign) else True
        for inner in ir.walk((operation,))
        if not isinstance(inner, ir.Branch | ir.Loop)
    )


def _kept(body: ir.Block, needed: set[str]) -> Iterator[ir.Operation]:
    for operation in body:
        if isinstance(operation, ir.Assign):
            if operation.variable in needed:
                yield operation
        elif isinstance(operation, ir.Loop):
            inner = tuple(_kept(operation.body, needed))
            if inner:
                yield replace(operation, body=inner)
        elif isinstance(operation, ir.Branch):
            then = tuple(_kept(operation.then, needed))
            otherwise = tuple(_kept(operation.otherwise, needed))
            if then or otherwise:
                yield replace(operation, then=then, otherwise=otherwise)
        else:
            yield operation


def _lost(role: RoleDraft) -> Iterator[Diagnostic]:
    """Numbers that matter and are not followed, each with its reason."""
    for operation in ir.walk(tuple(role.body)):
        values = [*_expressions(operation)]
        if isinstance(operation, ir.Assign):
            values.append(operation.value)
        for name in sorted({name for value in values for name in names_of(value)}):
            if name.startswith(LOST):
                reason = name.partition(": ")[2] or "it is not tracked"
                span = operation.span if isinstance(operation.span, Span) else None
                yield diagnostic("TTN010", f"a number is unknown: {reason}", span)


# --------------------------------------------------------------------------------- fences


def _fenced(body: ir.Block) -> ir.Block:
    """The body with the proxy fences that Triton places later.

    Its lowering puts one between a partition's own generic write to shared memory and its own
    asynchronous access to it; those between partitions are the program's own.
    """
    return _with_fences(body, set())


def _written(body: ir.Block) -> set[str]:
    return {
        effect.buffer
        for operation in ir.walk(body)
        if isinstance(operation, ir.Access)
        for effect in operation.effects
        if effect.write
    }


def _with_fences(body: ir.Block, written: set[str]) -> ir.Block:
    """`written`: what has been written before; what the body writes is added."""
    made: list[ir.Operation] = []
    for operation in body:
        if isinstance(operation, ir.Loop):
            written |= _written(operation.body)  # by the trip before
            made.append(replace(operation, body=_with_fences(operation.body, written)))
            continue
        if isinstance(operation, ir.Branch):
            then = _with_fences(operation.then, written)
            otherwise = _with_fences(operation.otherwise, written)
            made.append(replace(operation, then=then, otherwise=otherwise))
            continue
        written |= _written((operation,))
        if isinstance(operation, ir.Asynchronous) and any(
            effect.buffer in written and effect.proxy is ir.Proxy.ASYNC
            for effect in operation.effects
        ):
            made.append(ir.Fence(ir.FenceKind.ASYNC, (ir.Space.SHARED,), span=operation.span))
        made.append(operation)
    return tuple(made)


# ---------------------------------------------------------------------------------- sizes


class _Sizes:
    """Puts a parameter in the place of each term that holds arguments alone."""

    def __init__(self, arguments: set[str], either_way: bool) -> None:
        self.either_way = either_way
        self.arguments = frozenset(arguments)
        self.fixed = holds_only(self.arguments)
        self.names: dict[Expression, str] = {}
        self.found: list[tuple[str, Expression, int]] = []
        self.quotients: set[tuple[Expression, int]] = set()

    def end(self, expression: Expression) -> Expression:
        """The end of a loop: a size of its own where it is more than one, such as `a - b`.

        Numbers below 0 mean no trips, as 0 does. Where the sizes occur elsewhere they are
        independent of this one: that adds runs and leaves out none.
        """
        terms, _ = split(expression)
        sizes = [factor for term, factor in terms.items() if names_of(term) & self.arguments]
        if self.either_way and sizes not in ([], [1]) and self.fixed(expression):
            return self._parameter(expression)
        return self.change(expression)

    def note(self, expression: Expression) -> None:
        """Remember the quotients of arguments that occur, before anything is replaced."""
        match expression:
            case Not(operand):
                self.note(operand)
            case Binary(operator, left, right):
                if operator == "//" and isinstance(right, Constant) and self.fixed(expression):
                    self.quotients.add((left, right.value))
                self.note(left)
                self.note(right)

    def change(self, expression: Expression) -> Expression:
        """The expression with its sizes replaced."""
        if not names_of(expression) & self.arguments:
            return expression
        match expression:
            case Name():
                return self._parameter(expression)
            case Not(operand):
                return Not(self.change(operand))
            case Binary("+" | "-" | "*"):
                terms, constant = split(expression)
                if len(terms) == 1 and next(iter(terms)) == expression:
                    return self._term(expression)
                changed: dict[Expression, int] = {}
                for term, factor in terms.items():
                    inner = self.change(term)
                    changed[inner] = changed.get(inner, 0) + factor
                return joined((changed, constant))
        return self._term(expression)

    def _by_quotient(self, expression: Binary) -> Expression | None:
        """`K > 128` as `(K + 63) // 64 > 2`, where that quotient is a size anyway."""
        terms, constant = split(Binary("-", expression.left, expression.right))
        # terms OP -constant, as terms > bound or its negation
        bound = -constant if expression.operator in (">", "<=") else -constant - 1
        for left, divisor in sorted(self.quotients, key=lambda item: to_text(item[0])):
            of, rest = split(left)
            if of == terms and (bound + rest + 1) % divisor == 0:
                limit = Constant((bound + rest + 1) // divisor - 1)
                quotient = Binary("//", left, Constant(divisor))
                above = Binary(">", self._parameter(quotient), limit)
                return above if expression.operator in (">", ">=") else Not(above)
        return None

    def _term(self, expression: Expression) -> Expression:
        if isinstance(expression, Binary) and expression.operator in ("<", "<=", ">", ">="):
            same = self._by_quotient(expression) if self.fixed(expression) else None
            other = Binary(_TURNED[expression.operator], expression.right, expression.left)
            same = same or (self._by_quotient(other) if self.fixed(expression) else None)
            if same is not None:
                return same
        if self.fixed(expression) and not _holds_truth(expression):
            return self._parameter(expression)
        if isinstance(expression, Binary):
            left, right = self.change(expression.left), self.change(expression.right)
            return binary(expression.operator, left, right)
        return expression

    def _parameter(self, expression: Expression) -> Name:
        if expression not in self.names:
            name = self._name(expression)
            low = least(expression, lambda _: 0)
            self.names[expression] = name
            self.found.append((name, expression, max(0, low or 0)))
        return Name(self.names[expression])

    def _name(self, expression: Expression) -> str:
        """`K` for an argument, `K_per_64` for a quotient, else `size_1` and so on."""
        if isinstance(expression, Name):
            return expression.name
        inside = sorted(names_of(expression))
        taken = {name for name, _, _ in self.found} | self.arguments
        if isinstance(expression, Binary) and expression.operator == "//" and len(inside) == 1:
            name = f"{inside[0]}_per_{to_text(expression.right)}"
            if name.isidentifier() and name not in taken:
                return name
        return f"size_{len(self.found) + 1}"


def _holds_truth(expression: Expression) -> bool:
    match expression:
        case Not() | Binary("<" | "<=" | "==" | "!=" | ">=" | ">" | "and" | "or"):
            return True
        case Binary(_, left, right):
            return _holds_truth(left) or _holds_truth(right)
    return False


def _changed(body: ir.Block, sizes: _Sizes) -> ir.Block:
    return tuple(_one_changed(operation, sizes) for operation in body)


def _one_changed(operation: ir.Operation, sizes: _Sizes) -> ir.Operation:
    change = sizes.change

    def reference(of: ir.Reference) -> ir.Reference:
        return replace(of, index=change(of.index))

    match operation:
        case ir.Assign():
            return replace(operation, value=change(operation.value))
        case ir.Loop():
            body = _changed(operation.body, sizes)
            return replace(operation, stop=sizes.end(operation.stop), body=body)
        case ir.Branch():
            return replace(
                operation,
                condition=change(operation.condition),
                then=_changed(operation.then, sizes),
                otherwise=_changed(operation.otherwise, sizes),
            )
        case ir.Access():
            effects = tuple(replace(one, stage=change(one.stage)) for one in operation.effects)
            return replace(operation, effects=effects)
        case ir.Asynchronous():
            effects = tuple(replace(one, stage=change(one.stage)) for one in operation.effects)
            completes = tuple(
                replace(one, barrier=reference(one.barrier)) for one in operation.completes
            )
            return replace(operation, effects=effects, completes=completes)
        case ir.Wait():
            parity = change(operation.parity)
            return replace(operation, barrier=reference(operation.barrier), parity=parity)
        case ir.Init() | ir.Invalidate() | ir.Arrive() | ir.QueueArrive():
            return replace(operation, barrier=reference(operation.barrier))
    return operation
