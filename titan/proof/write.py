"""Writes certificates: a search with the checker's own steps, which finds what there is to state.

Untrusted: it proposes classes (those of the explorer's analysis), single steps and questions about
sizes, and writes down what it meets. The budget counts configurations.
"""

from __future__ import annotations

from titan.engines.explore.flatten import flatten
from titan.engines.explore.shifts import Analysis, NotApplicableError
from titan.proof.check import Proof, head_of, sealed, step_text
from titan.proof.commuting import alone
from titan.proof.configuration import Configuration, FaultyError, System
from titan.proof.open_sizes import NotCoveredError, UndecidedError
from titan.proof.shifts import CertifiedShiftClass
from titan.sync.fault import Actor, Step
from titan.sync.program import SyncProgram

__all__ = ["STATES_MAX", "FaultyError", "write"]

STATES_MAX = 60_000
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
    proof = Proof(System(program, sizes, claims))
    lines = [proof.start()]
    for before in proof.found:  # grows while lines lead to more
        lines.append(_line(proof, before, reduce))
        if len(proof.found) > states_max:
            raise NotCoveredError(f"more than {states_max} configurations")
    return sealed("\n".join([head_of(program, sizes, claims) + lines[0], *lines[1:], ""]))


def claims_of(program: SyncProgram, given: dict[str, int]) -> list[CertifiedShiftClass]:
    """What the explorer's analysis finds. Raises NotCoveredError."""
    flat = flatten(program, dict(given))
    if all(parameter.name in flat.sizes for parameter in program.parameters):
        return []
    analysis = Analysis(flat)
    try:
        analysis.run()
    except NotApplicableError as reason:
        raise NotCoveredError(str(reason)) from None
    claims = []
    for entry in analysis.classes:
        root = analysis.find(next(iter(entry.members)))
        tiles = {
            storage: int(degree.get(root, 0) * entry.period)
            for storage, degree in analysis.tile_degree.items()
        }
        phases = {
            name: int(degree.get(root, 0) * entry.period)
            for name, degree in analysis.phase_degree.items()
        }
        claims.append(
            CertifiedShiftClass(
                entry.period,
                entry.threshold,
                tuple(sorted((program.roles[r].name, n) for r, n in entry.members if r >= 0)),
                tuple(sorted(name for r, name in entry.members if r < 0)),
                tuple(sorted((name, shift) for name, shift in tiles.items() if shift)),
                tuple(sorted((name, shift) for name, shift in phases.items() if shift)),
            )
        )
    return claims


def _line(proof: Proof, before: Configuration, reduce: bool) -> str:
    """One step that represents all where there is one, all steps where not, or a question."""
    system = proof.system
    steps = {step_text(step): step for step in system.steps(before)}
    try:
        if reduce and len(steps) > 1:
            chosen = _chosen(system, before, list(steps.values()))
            if chosen is not None:
                return proof.expanded(before, "one", step_text(chosen))
        return proof.expanded(before, "all", "")
    except UndecidedError as question:
        return proof.expanded(before, "split", question.name)


def _chosen(system: System, before: Configuration, steps: list[Step]) -> Step | None:
    """A step that represents all. Raises UndecidedError where a size may find one."""
    asked: set[str] = set()
    for step in sorted(steps, key=lambda step: step.actor is Actor.AGENT):
        if alone(system, before, step, asked):
            return step
    if asked:
        ahead, name = min((_ahead(system, before, name), name) for name in asked)
        if ahead <= AHEAD_MAX:
            raise UndecidedError(name)
    return None


def _ahead(system: System, before: Configuration, asked: str) -> int:
    """How far ahead of the last of its class the size is asked for, in periods."""
    name, _, place = asked.rpartition(".")
    known = before.sizes[[parameter.name for parameter in system.open].index(name)]
    bound = known[int(place)].value if int(place) < len(known) else 0
    ahead = 0
    for agent, position, inside in system.live(before.state):
        for entry in system.classes:
            if name not in entry.claim.sizes:
                continue
            falls = system.falls(agent, inside, entry)
            for value, own in zip(position.values, falls, strict=True):
                if own:
                    ahead = max(ahead, (bound - value) // max(entry.claim.period, 4))
    return ahead
