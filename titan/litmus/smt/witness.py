"""A witness: the execution that shows why an outcome is allowed, read off a solver's model."""

from __future__ import annotations

from pysmt.fnode import FNode
from pysmt.solvers.solver import Model

from titan.litmus.language.ast import ProxyFence
from titan.litmus.language.printing import order_text
from titan.litmus.model.dialect import Dialect
from titan.litmus.model.execution import CandidateExecution, ExecutionEvent, Key
from titan.litmus.smt.event import LitmusEvent
from titan.litmus.smt.model import SYNCHRONISATIONS
from titan.litmus.smt.question import LitmusQuestion


def extract(question: LitmusQuestion, model: Model) -> CandidateExecution:
    """The execution of a solver model, its synchronisation and causality evaluated in it."""
    graph, rules = question.graph, question.model

    def true(formula: FNode) -> bool:
        return bool(model.get_value(formula, model_completion=True).is_true())

    def number(formula: FNode) -> int:
        return int(model.get_value(formula, model_completion=True).constant_value())

    executed = {e.index for e in graph.events if true(e.guard)}
    names = _names([e for e in graph.events if e.index in executed])
    phases = {**rules.rendezvous.phase, **rules.rendezvous.bar_phase}
    nodes = []
    for event in graph.events:
        if event.index in executed:
            value = number(event.value) if event.value is not None else None
            nodes.append(
                ExecutionEvent(
                    event.key,
                    names[event.index],
                    graph.test.threads[event.thread].name if event.thread >= 0 else "",
                    event.position if event.position is not None else 10**6 + event.index,
                    event.kind.value,
                    _label(event, value, graph.test.dialect),
                    event.location,
                    graph.memory(event) if event.location is not None else None,
                    value,
                    true(event.passes),
                    number(phases[event.index]) if event.index in phases else None,
                )
            )
    keys = {e.index: e.key for e in graph.events}

    def pairs(relation: dict[tuple[int, int], FNode]) -> tuple[tuple[Key, Key], ...]:
        return tuple(
            (keys[a], keys[b])
            for (a, b), formula in relation.items()
            if a in executed and b in executed and true(formula)
        )

    sync = {}
    for rule, function in SYNCHRONISATIONS.items():
        if rules.on(rule):
            for first, last, formula in function(rules):
                sync[(first.index, last.index)] = formula
    accesses = [e for e in [*rules.reads, *rules.writes] if e.index in executed and e.thread >= 0]
    cause = {
        (a.index, b.index): rules.cause(a, b)
        for a in accesses
        for b in accesses
        if a is not b and rules.same_memory(a, b)
    }
    registers = tuple(
        (thread, register, number(value)) for (thread, register), value in graph.registers.items()
    )
    return CandidateExecution(
        tuple(nodes),
        pairs(rules.rf),
        pairs(rules.co),
        pairs(rules.sc),
        pairs(rules.rendezvous.meets),
        pairs(sync),
        pairs(cause),
        registers,
    )


def _names(events: list[LitmusEvent]) -> dict[int, str]:
    """Short names in herd's way: a, b, c, ... in event order, `i<location>` for initial writes."""
    names, count = {}, 0
    for event in events:
        if event.thread < 0:
            names[event.index] = f"i{event.location}"
        else:
            high, low = divmod(count, 26)
            names[event.index] = (chr(96 + high) if high else "") + chr(97 + low)
            count += 1
    return names


def _label(event: LitmusEvent, value: int | None, dialect: Dialect) -> str:
    short = {"read": "R", "write": "W", "fence": "F", "barrier": "Bar"}
    text = short.get(event.kind.value, event.kind.value)
    form = event.instruction
    if event.kind.value == "proxy fence" and isinstance(form, ProxyFence):
        text = f"proxy fence {form.proxy}" + (
            "" if form.direction.value == "both" else f" {form.direction}"
        )
    if event.location is not None:
        text += f" {event.location}" + (f"={value}" if value is not None else "")
    if event.thread >= 0 and event.semantics.value != "weak":
        text += f" {order_text(event.semantics, event.scope, dialect)}"
    elif event.thread >= 0 and event.kind.value in ("read", "write"):
        text += " weak"
    if event.proxy.value != "generic" and event.kind.value in ("read", "write"):
        text += f" @{event.proxy}"
    return text
