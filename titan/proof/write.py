"""Writes certificates: a search with the checker's own steps, which finds what there is to state.

Untrusted: it proposes classes (those of the explorer's analysis), single steps and questions about
sizes, and writes down what it meets. The budget counts configurations.
"""

from __future__ import annotations

from collections.abc import Iterable

from titan.proof.check import Proof, head_of, sealed
from titan.proof.claims import claims_of
from titan.proof.commuting import alone
from titan.proof.configuration import Configuration, FaultyError, System
from titan.sync.fault import Actor, Step
from titan.sync.open_numbers import NotCoveredError, UndecidedError, parts_of
from titan.sync.program import SyncProgram

__all__ = ["STATES_MAX", "FaultyError", "write"]

STATES_MAX = 60_000
OUTER = 2**16  # how much more a pass of an outer loop counts than one of an inner loop
AHEAD_MAX = 1  # periods beyond the last of its class that a size is asked for a single step


def write(
    program: SyncProgram,
    given: dict[str, int] | None = None,
    states_max: int = STATES_MAX,
    reduce: bool = True,
) -> str:
    """The certificate of a program. Raises NotCoveredError and FaultyError."""
    sizes = dict(given or {})
    claims = claims_of(program, sizes)
    proof = Proof(System(program, sizes), claims)
    lines = [proof.line("start", (("", start) for start in proof.system.starts()))]
    for number, _ in enumerate(proof.found):  # grows while lines lead to more
        lines.append(_line(proof, number, reduce))
        if len(proof.found) > states_max:
            raise NotCoveredError(f"more than {states_max} configurations")
    proof.finish()
    return sealed("\n".join([head_of(program, sizes, claims) + lines[0], *lines[1:], ""]))


def _line(proof: Proof, number: int, reduce: bool) -> str:
    """One step that represents all where there is one, all steps where not, or a question."""
    system, before = proof.system, proof.found[number]
    try:
        steps = {step.text: step for step in system.steps(before)}
        if reduce and len(steps) > 1:
            chosen = _chosen(proof, before, list(steps.values()))
            if chosen is not None:
                return _followed(proof, "one", before, [chosen])
        return _followed(proof, "all", before, steps.values())
    except UndecidedError as question:
        return proof.expanded(number, "split", question.name)


def _followed(proof: Proof, kind: str, before: Configuration, steps: Iterable[Step]) -> str:
    """The line that the checker derives for these steps, which are as it wants them."""
    return proof.line(kind, [(step.text, proof.system.after(before, step)) for step in steps])


def _chosen(proof: Proof, before: Configuration, steps: list[Step]) -> Step | None:
    """A step that represents all. Raises UndecidedError where a size may find one."""
    asked: set[str] = set()
    progress = _progress(proof, before)

    def turn(step: Step) -> tuple[bool, int]:
        agent = step.actor is Actor.AGENT
        return agent, progress.get(step.agent, 0) if agent else 0

    for step in sorted(steps, key=turn):
        if alone(proof.system, before, step, asked):
            return step
    names = {parameter.name for parameter in proof.system.open}
    known = [(name.rpartition("."), name) for name in asked]
    sizes = [name for (head, _, place), name in known if head in names and place.isdigit()]
    if sizes:
        ahead, name = min((_ahead(proof, before, name), name) for name in sizes)
        if ahead <= AHEAD_MAX:
            raise UndecidedError(name)
    return None


def _progress(proof: Proof, before: Configuration) -> dict[int, int]:
    """How far each agent has come, by the numbers that grow; those of inner loops count less.

    Who is behind goes first: agents that do not wait for each other stay together.
    """
    inner = {parameter.name for parameter in proof.system.open if parameter.per}
    found: dict[int, int] = {}
    for agent, position, inside in proof.proposals.live(before.state):
        found[agent.number] = 0
        for entry in proof.proposals.classes:
            weight = 1 if inner & set(entry.claim.sizes) else OUTER
            falls = proof.proposals.falls(agent, inside, entry)
            for value, own in zip(position.values, falls, strict=True):
                found[agent.number] += weight * parts_of(value)[0] if own else 0
    return found


def _ahead(proof: Proof, before: Configuration, asked: str) -> int:
    """How far ahead of the last of its class the size is asked for, in periods."""
    name, _, place = asked.rpartition(".")
    known = next(size.known for size in before.sizes if size.name == name)
    bound = parts_of(known[int(place)])[0] if int(place) < len(known) else 0
    ahead = 0
    for agent, position, inside in proof.proposals.live(before.state):
        for entry in proof.proposals.classes:
            if name not in entry.claim.sizes:
                continue
            falls = proof.proposals.falls(agent, inside, entry)
            for value, own in zip(position.values, falls, strict=True):
                if own:
                    least = parts_of(value)[0]
                    ahead = max(ahead, (bound - least) // max(entry.claim.period, 4))
    return ahead
