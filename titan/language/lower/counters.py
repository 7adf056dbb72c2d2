"""Virtual tokens: which threshold of a wave's counter a wait lowers to.

Every operation of a counter class gets the next ordinal of its wave: token VTok(class, n). Token n
is ready when at most `issued - n - 1` operations are outstanding, because the class retires in
order. The thresholds are read off unrolled runs and then expressed symbolically: a constant in the
steady state, `min(steady, c + s * (last - index))` where fewer operations follow in the tail. A
form that does not fit all runs is never used; the smallest threshold then stands, which waits for
more.

Refused: a wait that steps over older stage transfers nobody has waited for (TTN401), and one that
goes back behind the retirement frontier (TTN402). Source: CDNA3 ISA 4.4; HARDWARE A1 to A8, A42.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from titan.language.lower.facts import Facts
from titan.language.lower.model import refusal
from titan.language.protocol import model
from titan.language.protocol.unroll import AgentTrace, ProtocolEvent, walk
from titan.sync import program as ir
from titan.sync.expression import (
    ONE,
    Binary,
    Constant,
    Expression,
    Name,
    binary,
    evaluate,
    linear_form,
)

VMCNT_MAX = 62  # 6 bits; 63 encodes "no wait", and compilers clamp to 62
LGKMCNT_MAX = 14  # 4 bits; 15 encodes "no wait"

Token = tuple[str, int]  # ring and index of a stage


@dataclass(frozen=True, slots=True)
class Sample:
    """One executed wait: the largest threshold that covers its token, and where it was met."""

    environment: dict[str, int]
    index: int
    last: int
    threshold: int


@dataclass
class Samples:
    """All executions of one wait in all runs."""

    found: list[Sample] = field(default_factory=list)


def operations_of(
    facts: Facts, event: ProtocolEvent, counter: str, issues: dict[str, str]
) -> Iterator[Token | None]:
    """The operations that an event adds to a counter, each with the stage it fills or reads.

    `issues` maps a ring to the counter of its `Produce`; reads count on lgkmcnt.
    """
    statement = event.statement
    if isinstance(statement, model.Produce) and issues.get(statement.ring) == counter:
        poisoned = statement.poison is not None and event.value(statement.poison)
        if poisoned or (statement.bytes is not None and event.value(statement.bytes) <= 0):
            return
        for _ in statement.buffers or facts.rings[statement.ring].ring.buffers:
            yield statement.ring, event.value(statement.index)
    elif isinstance(statement, model.ReadStage) and counter == "lgkmcnt":
        yield statement.ring, event.value(statement.index)
    elif isinstance(statement, model.Issue) and counter == "lgkmcnt":
        for operand in statement.operands:
            yield operand.ring, event.value(operand.index)
    elif isinstance(statement, model.Primitive):
        for operation in ir.walk((statement.operation,)):
            if isinstance(operation, ir.Asynchronous) and operation.queue == counter:
                yield None


def fill_samples(
    facts: Facts, role: model.ProtocolRole, issues: dict[str, str], counter: str, group: bool
) -> dict[int, Samples]:
    """For every `WaitReady` of the role (by identity): its executions.

    Raises LoweringRefused for waits that a counter cannot express; `group` allows a wait to retire
    older stages along with its own.
    """
    result: dict[int, Samples] = {}
    for trace in facts.role_traces(role):
        _follow(facts, trace, issues, counter, group, result)
    return result


def _follow(
    facts: Facts,
    trace: AgentTrace,
    issues: dict[str, str],
    counter: str,
    group: bool,
    result: dict[int, Samples],
) -> None:
    """One wave: ordinals in order of issue, and the frontier behind which all is retired."""
    issued: list[Token | None] = []
    frontier = -1
    waited: set[Token] = set()
    last: dict[str, int] = {}
    for event in trace.events:
        for token in operations_of(facts, event, counter, issues):
            if token is not None:
                last[token[0]] = max(last.get(token[0], token[1]), token[1])
    for event in trace.events:
        statement = event.statement
        issued.extend(operations_of(facts, event, counter, issues))
        if not isinstance(statement, model.WaitReady) or issues.get(statement.ring) != counter:
            continue
        token = (statement.ring, event.value(statement.index))
        mine = [ordinal for ordinal, owner in enumerate(issued) if owner == token]
        waited.add(token)
        if not mine:
            continue
        target = mine[-1]
        text = f"{token[0]}[{token[1]}]"
        if target <= frontier:
            if group:
                continue
            raise refusal(
                "TTN402",
                f"the wait for {text} precedes the retirement frontier of {counter}",
                statement.span,
                f"{trace.name} issued it as operation {target} and has already waited for "
                f"operation {frontier}; a counter retires in order of issue",
            )
        skipped = {
            owner for owner in issued[frontier + 1 : target] if owner and owner not in waited
        }
        if skipped and not group:
            ring, index = min(skipped)
            raise refusal(
                "TTN401",
                f"a wait for {text} alone cannot be expressed by {counter}",
                statement.span,
                f"{ring}[{index}] was issued before it by {trace.name} and no wait covers "
                f"it; {counter} retires in order of issue, so the wait would retire it as well",
            )
        frontier = target
        result.setdefault(id(statement), Samples()).found.append(
            Sample(
                dict(event.environment),
                token[1],
                last[token[0]],
                len(issued) - 1 - target,
            )
        )


def symbolic_threshold(
    role: model.ProtocolRole, statement: model.WaitReady, samples: Samples
) -> tuple[Expression, bool]:
    """The threshold as an expression that agrees with every sample; whether it is exact."""
    values = {sample.threshold for sample in samples.found}
    if not values:
        return Constant(0), True
    if len(values) == 1:
        return Constant(values.pop()), True
    steady = max(values)
    at_end = {sample.threshold for sample in samples.found if sample.last == sample.index}
    one_before = {sample.threshold for sample in samples.found if sample.last == sample.index + 1}
    if len(at_end) != 1 or len(one_before) != 1:
        return Constant(min(values)), False
    least = at_end.pop()
    slope = one_before.pop() - least
    fits = all(
        sample.threshold == min(steady, least + slope * (sample.last - sample.index))
        for sample in samples.found
    )
    last = _last_index(role, samples)
    if not fits or last is None or slope <= 0:
        return Constant(min(values)), False
    behind = binary("-", last, statement.index)
    rest = binary("+", binary("*", Constant(slope), behind), Constant(least))
    return Binary("min", Constant(steady), _simplified(rest)), True


def _simplified(expression: Expression) -> Expression:
    """The same affine expression with every name once."""
    form = linear_form(expression)
    if form is None:
        return expression
    result: Expression = Constant(0)
    for name, factor in sorted(form[0].items(), key=lambda item: item[1] < 0):
        term = binary("*", Constant(abs(factor)), Name(name))
        result = binary("+" if factor > 0 else "-", result, term)
    operator = "+" if form[1] >= 0 else "-"
    return binary(operator, result, Constant(abs(form[1])))


def _last_index(role: model.ProtocolRole, samples: Samples) -> Expression | None:
    """An expression of the sizes for the last index that is produced."""
    loops = [item for item in walk(role.body) if isinstance(item, model.For)]
    stops = [loop.stop for loop in loops]
    names = sorted({name for sample in samples.found for name in sample.environment})
    candidates: list[Expression] = [binary("-", stop, ONE) for stop in stops]
    candidates += [binary("-", Name(name), ONE) for name in names]
    candidates += [
        binary("-", binary("*", first, second), ONE)
        for number, first in enumerate(stops)
        for second in stops[number + 1 :]
    ]
    for candidate in candidates:
        try:
            if all(evaluate(candidate, s.environment) == s.last for s in samples.found):
                return candidate
        except (KeyError, ZeroDivisionError):
            continue
    return None


def covering_threshold(
    facts: Facts,
    role: model.ProtocolRole,
    statement: model.Release | model.Drain,
    issues: dict[str, str],
    ceiling: int,
) -> int:
    """The largest lgkmcnt threshold that covers the statement's reads wherever it is executed."""
    found: set[int] = set()
    for trace in facts.role_traces(role):
        issued: list[tuple[Token | None, str]] = []
        for event in trace.events:
            group = event.statement.group if isinstance(event.statement, model.Issue) else ""
            issued += [(token, group) for token in operations_of(facts, event, "lgkmcnt", issues)]
            if event.statement is not statement:
                continue
            if isinstance(statement, model.Release):
                token = (statement.ring, event.value(statement.index))
                mine = [n for n, (owner, _) in enumerate(issued) if owner == token]
            else:
                mine = _drained(issued, statement.group, event.value(statement.leaving), trace)
            if mine:
                found.add(len(issued) - 1 - mine[-1])
    return min(min(found, default=0), ceiling)


def _drained(
    issued: list[tuple[Token | None, str]], group: str, leaving: int, trace: AgentTrace
) -> list[int]:
    """Ordinals of a group's operations that a drain covers: all issues but the newest `leaving`."""
    sizes = {
        item.group: len(item.operands)
        for item in walk(trace.role.body)
        if isinstance(item, model.Issue)
    }
    mine = [number for number, (_, name) in enumerate(issued) if name == group]
    kept = leaving * sizes.get(group, 1)
    return mine[: len(mine) - kept] if kept else mine
