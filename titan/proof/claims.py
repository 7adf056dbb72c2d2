"""The classes of numbers that a certificate proposes: those of the explorer's analysis, made finer.

Untrusted. The analysis lowers a class by periods in which every stage is the same again and every
barrier has the same parity. Where stages and phases are named by remainders and quotients of the
counters, arrays may turn with the class, and it is lowered by less: mostly by 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from titan.engines.explore.flatten import flatten
from titan.engines.explore.shifts import Analysis, NotApplicableError
from titan.proof.shifts import CertifiedShiftClass, CheckedClass
from titan.sync import program as ir
from titan.sync.arrays import Arrays
from titan.sync.expression import Binary
from titan.sync.open_numbers import NotCoveredError
from titan.sync.parts import barriers_of, effects_of

Shifts = tuple[tuple[str, int], ...]


def claims_of(program: ir.SyncProgram, given: dict[str, int]) -> list[CertifiedShiftClass]:
    """The classes. Raises NotCoveredError."""
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
        claim = CertifiedShiftClass(
            entry.period,
            entry.threshold,
            tuple(sorted((program.roles[r].name, n) for r, n in entry.members if r >= 0)),
            tuple(sorted(name for r, name in entry.members if r < 0)),
            tuple(sorted((name, shift) for name, shift in tiles.items() if shift)),
            tuple(sorted((name, shift) for name, shift in phases.items() if shift)),
        )
        claims.append(_finest(program, claim, given))
    return claims


def _finest(
    program: ir.SyncProgram, claim: CertifiedShiftClass, given: dict[str, int]
) -> CertifiedShiftClass:
    """The class with the least period and threshold that hold."""
    falls = dict(_falls(program, CheckedClass(program, claim, given)))
    for period in range(1, claim.period):
        if claim.period % period:
            continue
        finer = _finer(program, claim, falls, period)
        found = None if finer is None else _lowest(program, finer, given)
        if found is not None:
            return found
    return _lowest(program, claim, given) or claim


def _falls(program: ir.SyncProgram, entry: CheckedClass) -> Iterator[tuple[str, int]]:
    """By how much what names the stage of an array falls in a period, before the remainder."""
    for role in program.roles:
        for operation in ir.walk(role.body):
            named = [(reference.name, reference.index) for reference in barriers_of(operation)]
            named += [(effect.buffer, effect.stage) for effect in effects_of(operation)]
            for name, index in named:
                match index:
                    case Binary("%", left, _) if fall := entry.drop(role, left):
                        yield name, fall


def _finer(
    program: ir.SyncProgram, claim: CertifiedShiftClass, falls: dict[str, int], period: int
) -> CertifiedShiftClass | None:
    """The class with a shorter period, in which arrays turn; None where numbers come out uneven."""
    stages = Arrays(program).stages
    parts = {name: fall * period for name, fall in falls.items() if name in stages}
    turns = {
        name: fall // claim.period
        for name, fall in parts.items()
        if fall % (claim.period * stages[name])
    }
    tiles = tuple((name, shift * period) for name, shift in claim.tiles)
    phases = tuple((name, shift * period) for name, shift in claim.phases if name not in turns)
    uneven = (number % claim.period for _, number in (*parts.items(), *tiles, *phases))
    if any(uneven):
        return None
    return replace(
        claim,
        period=period,
        tiles=_divided(tiles, claim.period),
        phases=_divided(phases, claim.period),
        turns=tuple(sorted(turns.items())),
    )


def _divided(shifts: Shifts, period: int) -> Shifts:
    return tuple((name, shift // period) for name, shift in shifts)


def _lowest(
    program: ir.SyncProgram, claim: CertifiedShiftClass, given: dict[str, int]
) -> CertifiedShiftClass | None:
    """The class with the least threshold that holds: below it are configurations of their own."""
    for threshold in range(claim.threshold + 1):
        lower = replace(claim, threshold=threshold)
        try:
            CheckedClass(program, lower, given)
        except NotCoveredError:
            continue
        return lower
    return None
