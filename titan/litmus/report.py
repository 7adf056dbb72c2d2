"""Shows a decision in the words of the field: Test, States, Ok or No, Condition, Observation.

The witness is listed event by event, then relation by relation.
"""

from __future__ import annotations

from titan.litmus.decide import STATES_MAX, LitmusDecision
from titan.litmus.language.ast import FinalMemory, FinalRegister
from titan.litmus.language.condition import format_condition
from titan.litmus.model.dialect import Dialect
from titan.litmus.model.execution import CandidateExecution

State = dict[FinalRegister | FinalMemory, int]
_RELATIONS = ("rf", "co", "fr", "sync", "cause")


def format_state(state: State) -> str:
    """A final state in the form of herd: `P0:r1=1; x=2;`."""
    return " ".join(f"{term}={value};" for term, value in state.items())


def format_decision(
    decision: LitmusDecision,
    states: list[State] | None = None,
    expected: str | None = None,
    *,
    timings: bool = False,
) -> str:
    """The report of one test; with `timings` the processor time too."""
    test = decision.test
    lines = [f"Test {test.name} {decision.verdict}"]
    if states is not None:
        more = " or more" if len(states) == STATES_MAX else ""
        lines += [f"States {len(states)}{more}", *(format_state(state) for state in states)]
    lines.append({True: "Ok", False: "No", None: "Undecided"}[decision.holds])
    if decision.allowed and decision.note:
        lines.append(f"Undefined: {decision.note} makes every outcome possible")
    if states is not None and test.filter is None and decision.complete:
        lines += _witnesses(decision, states)
    if not decision.complete:
        lines.append("Bounded: loops were cut off, further states may exist")
    condition = format_condition(test.condition)
    lines.append(f"Condition {test.quantifier} ({condition})")
    if test.filter is not None:
        lines.append(f"Filter ({format_condition(test.filter)})")
    lines.append(f"Reading {_reading(decision)}")
    if expected is not None:
        agrees = "as expected" if expected == decision.verdict else "UNEXPECTED"
        lines.append(f"Expected {expected}, {agrees}")
    if timings:
        lines.append(f"Time {test.name} {decision.seconds:.3f}")
    return "\n".join(lines) + "\n"


def _reading(decision: LitmusDecision) -> str:
    if decision.test.dialect is Dialect.PTX:
        return str(decision.options)
    if decision.test.dialect.machine is not None:
        return f"instructions of {decision.test.dialect.machine}, every state of its caches"
    return f"{decision.test.dialect}: scopes include each other, a data race is undefined"


def _witnesses(decision: LitmusDecision, states: list[State]) -> list[str]:
    """How many of the listed states satisfy the condition; only comparisons are counted."""
    from titan.litmus.language.ast import Compare, Condition, Connective

    def value(term: object, state: State) -> int:
        return term if isinstance(term, int) else state[term]  # type: ignore[index]

    def holds(condition: Condition, state: State) -> bool | None:
        if isinstance(condition, Compare):
            a, b = value(condition.left, state), value(condition.right, state)
            return {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[
                condition.relation
            ]
        if isinstance(condition, Connective):
            parts = [holds(part, state) for part in condition.parts]
            if None in parts:
                return None
            if condition.kind == "not":
                return not parts[0]
            return all(parts) if condition.kind == "and" else any(parts)
        return None

    results = [holds(decision.test.condition, state) for state in states]
    if None in results:
        return []
    positive = sum(bool(result) for result in results)
    negative = len(results) - positive
    seen = "Never" if not positive else ("Sometimes" if negative else "Always")
    return [
        "Witnesses",
        f"Positive: {positive} Negative: {negative}",
        f"Observation {decision.test.name} {seen} {positive} {negative}",
    ]


def format_execution(execution: CandidateExecution) -> str:
    """The witness as text: events by thread, then the relations between them by name."""
    lines = ["Execution"]
    threads = dict.fromkeys(node.thread for node in execution.nodes)
    for thread in threads:
        lines.append(f"  {thread or 'initial state'}")
        for node in sorted(
            (n for n in execution.nodes if n.thread == thread), key=lambda n: n.order
        ):
            detail = "" if node.passed else " (blocked or not yet complete)"
            if node.phase is not None:
                detail += f" phase {node.phase}"
            lines.append(f"    {node.name}: {node.label}{detail}")
    names = {node.key: node.name for node in execution.nodes}
    for relation in _RELATIONS:
        pairs = getattr(execution, relation)
        shown = sorted({(names[a], names[b]) for a, b in pairs if a in names and b in names})
        if relation == "co":
            shown = _reduced(shown)
        if shown:
            lines.append(f"  {relation}: " + ", ".join(f"{a} -> {b}" for a, b in shown))
    return "\n".join(lines) + "\n"


def _reduced(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """A transitive relation without the pairs that follow from two others."""
    known = set(pairs)
    return [
        (a, c) for a, c in pairs if not any((a, b) in known and (b, c) in known for _, b in known)
    ]


def as_json(
    decision: LitmusDecision,
    path: str,
    states: list[State] | None = None,
    expected: str | None = None,
    *,
    timings: bool = False,
) -> dict[str, object]:
    """One test as plain data; the field names are part of the interface."""
    test = decision.test
    result: dict[str, object] = {
        "path": path,
        "test": test.name,
        "verdict": decision.verdict,
        "expected": expected,
        "ok": decision.holds,
        "quantifier": test.quantifier.value,
        "condition": format_condition(test.condition),
        "filter": format_condition(test.filter) if test.filter is not None else None,
        "reading": {
            "fence_rule": decision.options.fence_rule.value,
            "war": decision.options.war.value,
            "init": decision.options.init.value,
            "tensor": decision.options.tensor.value,
        },
        "dialect": test.dialect.value,
        "note": decision.note,
        "complete": decision.complete,
        "solver": decision.solver,
        **({"seconds": round(decision.seconds, 6)} if timings else {}),
    }
    if states is not None:
        result["states"] = [{str(t): v for t, v in state.items()} for state in states]
    if decision.witness is not None:
        result["execution"] = _execution_json(decision.witness)
    return result


def _execution_json(execution: CandidateExecution) -> dict[str, object]:
    names = {node.key: node.name for node in execution.nodes}
    found: dict[str, object] = {
        "events": [
            {"name": n.name, "thread": n.thread, "label": n.label, "passed": n.passed}
            for n in execution.nodes
        ]
    }
    for relation in _RELATIONS:
        found[relation] = sorted(
            {
                (names[a], names[b])
                for a, b in getattr(execution, relation)
                if a in names and b in names
            }
        )
    return found
