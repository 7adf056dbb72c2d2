"""Augmented typestate: every rule of the protocol, for every number of tiles.

Free, Slot, ReadyTok or ReadyPoison, shares of ReadPerm, ComputeTok and ConsumedTok are affine: used
once, in this order, for each index of a ring. Each rule becomes questions of linear integer
arithmetic over symbolic sizes and iterations (`obligations.py`), and the absence of hangs one
search for affine times (`ranking.py`).

VERIFIED: no question has a model, for any size. REFUTED: the tokens of a run with the sizes of some
model break a rule (`tokens.py`, no solver). UNDECIDED: the protocol says something that families
cannot, the solver returned unknown, or a model could not be confirmed; the reasons are given.

Assumptions: proxies, sync-level primitives and the lowering itself are not judged here; the number
of agents that fill and free a stage is the declared one or the largest in small runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from itertools import product

from titan.foundation.diagnostics.model import Annotation, Diagnostic, diagnostic
from titan.foundation.records import dataclass
from titan.foundation.source.span import Span
from titan.language.protocol import model
from titan.language.protocol.dependences import WaitNode
from titan.language.protocol.families import UnsupportedProtocol
from titan.language.protocol.obligations import Obligation, Obligations
from titan.language.protocol.orders import FamilyExecution
from titan.language.protocol.participants import participants
from titan.language.protocol.ranking import has_ranking
from titan.language.protocol.solver import SolverArithmetic
from titan.language.protocol.tokens import Breach, TokenRun
from titan.language.protocol.unroll import UnrollError, walk
from titan.language.protocol.uses import SOFT_IF_OPAQUE, Uses, uses_of
from titan.sync.expression import Binary, Constant, Expression, Name, to_text
from titan.sync.program import Fence

RUNS_MAX = 400
RUNS_EVENTS_MAX = 60_000  # statements of all runs together


class TypestateResult(StrEnum):
    """The answer for all sizes; undecided where the method does not apply or gives up."""

    VERIFIED = "verified"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Sizes for which a run of tokens breaks a rule."""

    sizes: tuple[tuple[str, int], ...]
    breach: Breach


@dataclass(frozen=True, slots=True)
class Undecided:
    """Why a part of the question remains open."""

    reason: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class TypestateReport:
    """`deeper`: the same holds with every ring as deep or deeper (None: not asked)."""

    answer: TypestateResult
    counterexamples: tuple[Counterexample, ...] = ()
    open: tuple[Undecided, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    questions: int = 0
    deeper: bool | None = None


def check(protocol: model.Protocol, *, any_depth: bool = False) -> TypestateReport:
    """Judge a protocol. `any_depth` also asks whether every greater depth is verified.

    Never raises for what a protocol says; what cannot be expressed is UNDECIDED with the reason.
    """
    try:
        ready, free = participants(protocol)
    except UnrollError as error:
        return TypestateReport(TypestateResult.UNDECIDED, open=(Undecided(str(error)),))
    checker = _Checker(protocol, ready, free)
    report = checker.run()
    if any_depth and report.answer is TypestateResult.VERIFIED:
        return replace(report, deeper=checker.verified_deeper())
    return report


class _Checker:
    def __init__(
        self, protocol: model.Protocol, ready: dict[str, int], free: dict[str, int]
    ) -> None:
        self.protocol = protocol
        self.ready = ready
        self.free = free
        self.open: list[Undecided] = []
        self.found: dict[tuple[str, int], Counterexample] = {}
        self.questions = 0
        self.events = 0  # statements that runs of tokens have executed
        primitives = [
            item.operation
            for role in protocol.roles
            for item in walk(role.body)
            if isinstance(item, model.Primitive)
        ]
        ordering = any(not isinstance(item, Fence) for item in primitives)
        self.ignored = SOFT_IF_OPAQUE if ordering else frozenset()

    def run(self) -> TypestateReport:
        depths: dict[str, Expression] = {
            ring.name: Constant(ring.depth) for ring in self.protocol.rings
        }
        try:
            uses = uses_of(self.protocol)
            if uses.opaque:
                kind, span = uses.opaque[0]
                self._leave(f"what a sync-level {kind} orders is left to the explorer", span)
            arithmetic = self._arithmetic(depths)
            self._ask(Obligations(*self._parts(uses, arithmetic, depths)), arithmetic)
            if (
                not self.found
                and not self.open
                and not has_ranking(_nodes(uses), depths, self._sizes(depths))
            ):
                self._try_runs()
                if not self.found:
                    self._leave("no affine schedule shows that the waits form no cycle")
        except UnsupportedProtocol as error:
            self._leave(error.reason, error.span)
        if self.open and not self.found:
            self._try_runs()
        answer = TypestateResult.REFUTED if self.found else TypestateResult.VERIFIED
        if self.open and not self.found:
            answer = TypestateResult.UNDECIDED
        diagnostics = tuple(_diagnostic(self.protocol, item) for item in self.found.values())
        return TypestateReport(
            answer, tuple(self.found.values()), tuple(self.open), diagnostics, self.questions
        )

    def verified_deeper(self) -> bool:
        """The same questions with a symbol for each depth, at least as large as the given one."""
        depths: dict[str, Expression] = {
            ring.name: Name(f"depth:{ring.name}") for ring in self.protocol.rings
        }
        try:
            uses = uses_of(self.protocol)
            arithmetic = self._arithmetic(depths)
            obligations = Obligations(*self._parts(uses, arithmetic, depths))
            for group in obligations.groups():
                for question in group:
                    if arithmetic.example(question.formula) is not None:
                        return False
            return has_ranking(_nodes(uses), depths, self._sizes(depths))
        except UnsupportedProtocol:
            return False

    def _parts(
        self, uses: Uses, arithmetic: SolverArithmetic, depths: dict[str, Expression]
    ) -> tuple[
        model.Protocol,
        Uses,
        SolverArithmetic,
        dict[str, Expression],
        dict[str, int],
        dict[str, int],
    ]:
        return self.protocol, uses, arithmetic, depths, self.ready, self.free

    def _sizes(self, depths: Mapping[str, Expression]) -> list[Expression]:
        """What holds of the sizes and of symbolic depths."""
        conditions: list[Expression] = []
        for parameter in self.protocol.parameters:
            operator = ">=" if parameter.value is None else "=="
            bound = parameter.minimum if parameter.value is None else parameter.value
            conditions.append(Binary(operator, Name(parameter.name), Constant(bound)))
        for ring in self.protocol.rings:
            depth = depths[ring.name]
            if isinstance(depth, Name):
                conditions.append(Binary(">=", depth, Constant(ring.depth)))
        return conditions

    def _arithmetic(self, depths: Mapping[str, Expression]) -> SolverArithmetic:
        arithmetic = SolverArithmetic()
        for condition in self._sizes(depths):
            arithmetic.assume(condition)
        return arithmetic

    def _leave(self, reason: str, span: Span | None = None) -> None:
        item = Undecided(reason, span)
        if item not in self.open:
            self.open.append(item)

    def _free_names(self) -> list[str]:
        return [item.name for item in self.protocol.parameters if item.value is None]

    def _ask(self, obligations: Obligations, arithmetic: SolverArithmetic) -> None:
        for group in obligations.groups():
            try:
                for question in group:
                    self.questions += 1
                    values = arithmetic.example(question.formula, self._free_names())
                    if values is not None:
                        self._suspect(question, values)
            except UnsupportedProtocol as error:
                self._leave(error.reason, error.span)

    def _suspect(self, question: Obligation, values: dict[str, int]) -> None:
        """Confirm a model by running the tokens; otherwise leave the question open."""
        if question.soft or question.code in self.ignored:
            reason = question.reason or f"{question.code} is kept only if a primitive orders it"
            self._leave(reason, question.statement.span)
            return
        sizes = {
            item.name: values.get(item.name, item.minimum)
            for item in self.protocol.parameters
            if item.value is None
        }
        try:
            breaches = self._breaches(sizes)
        except UnrollError as error:
            self._leave(f"a possible {question.code} could not be run: {error}",
                        question.statement.span)  # fmt: skip
            return
        fitting = [item for item in breaches if item.code == question.code] or breaches
        exact = [item for item in fitting if question.statement in item.statements]
        if not fitting:
            self._leave(
                f"a possible {question.code} with {_sizes_text(sizes)} that a run does not confirm",
                question.statement.span,
            )
            return
        self._keep(sizes, (exact or fitting)[0])

    def _breaches(self, sizes: dict[str, int]) -> list[Breach]:
        """What a run of tokens breaks, without rules that opaque primitives may keep."""
        run = TokenRun(self.protocol, sizes, self.ready, self.free)
        self.events += sum(len(trace.events) for trace in run.traces)
        return [item for item in run.breaches() if item.code not in self.ignored]

    def _keep(self, sizes: dict[str, int], breach: Breach) -> None:
        breach = _unequal(self.protocol, breach)
        place = id(breach.statements[0]) if breach.statements else 0
        item = Counterexample(tuple(sizes.items()), breach)
        self.found.setdefault((breach.code, place), item)

    def _try_runs(self) -> None:
        """Look for a breach in runs of small sizes, as far as RUNS_EVENTS_MAX reaches."""
        self.events = 0
        for sizes in _small_sizes(self.protocol):
            if self.events > RUNS_EVENTS_MAX:
                return
            try:
                breaches = self._breaches(sizes)
            except UnrollError:
                continue
            if breaches:
                self._keep(sizes, breaches[0])
                return


def _small_sizes(protocol: model.Protocol) -> Iterator[dict[str, int]]:
    depth = max((ring.depth for ring in protocol.rings), default=1)
    free = [item for item in protocol.parameters if item.value is None]
    ranges = [range(item.minimum, item.minimum + 2 * depth + 3) for item in free]
    for number, values in enumerate(product(*ranges)):
        if number >= RUNS_MAX:
            return
        yield {item.name: value for item, value in zip(free, values, strict=True)}


def _nodes(uses: Uses) -> list[WaitNode]:
    waits = [WaitNode(FamilyExecution(use.family), use.ring, use.index, True)
             for use in (*uses.acquires, *uses.waits)]  # fmt: skip
    arrivals = [WaitNode(FamilyExecution(use.family), use.ring, use.index, False)
                for use in (*uses.arrivals, *uses.releases)]  # fmt: skip
    return waits + arrivals


# --------------------------------------------------------------------------------- reports


def _unequal(protocol: model.Protocol, breach: Breach) -> Breach:
    """A missing partner is a matter of unequal bounds where the outer loops differ."""
    if breach.code not in ("TTN107", "TTN109") or breach.hangs:
        return breach
    rings = {model.ring_of(item) for item in breach.statements} - {None}
    filled: set[str] = set()
    read: set[str] = set()
    partners: list[model.Statement] = []
    for role in protocol.roles:
        for outer in role.body:
            for item in walk((outer,)):
                if model.ring_of(item) not in rings or not isinstance(outer, model.For):
                    continue
                bounds = f"{to_text(outer.start)}..{to_text(outer.stop)}"
                if isinstance(item, model.Produce):
                    filled.add(bounds)
                elif isinstance(item, model.WaitReady):
                    read.add(bounds)
                else:
                    continue
                if item not in breach.statements:
                    partners.append(item)
    if filled and read and not filled & read:
        message = (
            f"{breach.message}: one role runs {', '.join(sorted(filled))}, the other "
            f"{', '.join(sorted(read))}"
        )
        statements = (*breach.statements, *partners)
        return replace(breach, code="TTN108", message=message, statements=statements)
    return replace(breach, statements=(*breach.statements, *partners))


_HELPS = {
    "TTN101": "acquire the same index before",
    "TTN102": "fill a stage once in an epoch",
    "TTN103": "wait for the same index before, and read before the release",
    "TTN104": "drain the group before the release, or release a stage of an earlier iteration",
    "TTN105": "release on every path that waits",
    "TTN106": "acquire exactly the index that is filled",
    "TTN107": "give both roles the same guard, and let no role wait before it has given back",
    "TTN108": "derive both bounds from the same size",
    "TTN109": "wait for everything that was started before the role ends",
    "TTN110": "move the release out of the guard, or release per agent",
    "TTN111": "branch on poison before reading",
    "TTN112": "release what was waited for",
    "TTN113": "release once, after the last read",
}


def _sizes_text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes.items()) or "the given sizes"


def _diagnostic(protocol: model.Protocol, item: Counterexample) -> Diagnostic:
    """The counterexample in the words of the kernel: sizes, iteration, both statements."""
    breach = item.breach
    spans = [statement.span for statement in breach.statements]
    places = [span for span in spans if span]
    others = tuple(Annotation(span, "and this") for span in places[1:])
    notes = [f"for {_sizes_text(dict(item.sizes))}, in {breach.agent}"]
    for event in breach.events[:2]:
        loops = {
            name: value
            for name, value in event.environment.items()
            if name not in {parameter.name for parameter in protocol.parameters}
        }
        if loops:
            kind = type(event.statement).__name__
            notes.append(f"{kind} at {', '.join(f'{n} = {v}' for n, v in loops.items())}")
    return diagnostic(
        breach.code,
        breach.message,
        places[0] if places else None,
        "here",
        others=others,
        notes=tuple(notes),
        helps=(_HELPS[breach.code],),
    )
