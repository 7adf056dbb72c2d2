"""Branches on data with barriers in their arms, where all lanes of a wave are shown to go one way.

A run is made with numbers for what lanes compute (`lane_values.py`). Where data decide a branch, or
which lanes go on, and the arms cannot be skipped, the condition has one number in all lanes that
take part, or the run ends there. A number is decided once, for all waves, so that waves whose
conditions are not shown to be equal are tried on different ways, too; each combination of decisions
is a run of its own. Numbers are equal values where nothing races, which the judgement on each run
shows: an execution that left all of these runs would leave one of them at a first branch, by values
that this run has ordered. A combination that data cannot bring about is tried, too, so what goes
wrong in one alone refutes nothing.

The decisions of a path, by wave, become `Launch.wave_ways`, by which every machine makes its run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from titan.isa.gcn.module import GcnOperand, Registers
from titan.isa.gcn.operands import EXEC, VCC
from titan.isa.simt.launch import Launch
from titan.isa.simt.outcome import Ending, Run
from titan.isa.waves.decode import DecodedInstruction
from titan.isa.waves.lane_arms import ArmsValues
from titan.isa.waves.lane_numbers import ZERO, Numbers
from titan.isa.waves.state import OpaqueWord, Wave

DECISIONS_MAX = 12  # of one path
PATHS_MAX = 24
TOO_MANY = "data decide the rounds of a loop with barriers, or more ways than are tried"
_NARROWING = ("s_and_saveexec_b", "s_and_b", "s_andn2_saveexec_b", "s_andn2_b")
_VCC_PAIR = Registers("s", VCC, 2)


class ConditionDecider(Protocol):
    """Says whether a condition on data holds for a wave."""

    def holds(self, wave: Wave, code: DecodedInstruction) -> bool | None:
        """Whether the condition of a branch holds, or the mask that narrows that of execution has
        all lanes of it, else none; None where it is open."""


def narrowing_mask(wave: Wave, code: DecodedInstruction) -> Registers | None:
    """The unknown mask with which an instruction narrows the execution mask; None for others."""
    item = code.item
    if not item.base.startswith(_NARROWING):
        return None
    first, *sources = item.operands
    pairs = [one for one in sources if isinstance(one, Registers) and one.bank == "s"]
    saves = "saveexec" in item.base
    if not saves and not _is_execution(first):
        return None
    if saves and "andn2" in item.base:
        return None  # leaves lanes of the operand, not of the mask
    if not saves:
        others = [one for one in pairs if not _is_execution(one)]
        if len(pairs) != 2 or len(others) != 1 or (pairs[0] in others and "andn2" in item.base):
            return None
        pairs = others
    if len(pairs) != 1 or not isinstance(wave.scalar(pairs[0].first, pairs[0].count), OpaqueWord):
        return None
    return pairs[0]


def _is_execution(operand: GcnOperand) -> bool:
    return isinstance(operand, Registers) and operand.bank == "s" and operand.first == EXEC


class GivenWays:
    """The decisions of a launch, one after the other for each wave."""

    def __init__(self, launch: Launch) -> None:
        self._ways = {wave: list(reversed(ways)) for wave, ways in launch.wave_ways.items()}

    def holds(self, wave: Wave, code: DecodedInstruction) -> bool | None:
        """The next decision, if it is on this instruction."""
        left = self._ways.get(wave.number)
        return left.pop()[1] if left and left[-1][0] == code.number else None


@dataclass(slots=True)
class DecidingValues(ArmsValues):
    """Numbers by which conditions are decided: by `script`, one truth after the other in the order
    in which their numbers come up, and by a guess behind its end."""

    script: Sequence[bool] = ()
    truths: list[bool] = field(default_factory=list)
    ways: dict[int, list[tuple[int, bool]]] = field(default_factory=lambda: defaultdict(list))
    branches: set[int] = field(default_factory=set)
    too_many: bool = False
    _truth: dict[bytes, bool] = field(default_factory=dict)

    def holds(self, wave: Wave, code: DecodedInstruction) -> bool | None:
        """The truth of the number of a condition, if all lanes have one."""
        number = self._number(wave, code)
        if number is None:
            return None
        if number not in self._truth:
            if len(self.truths) == DECISIONS_MAX:
                self.too_many = True
                return None
            at = len(self.truths)
            self._truth[number] = self.script[at] if at < len(self.script) else _goes_on(code)
            self.truths.append(self._truth[number])
        truth = self._truth[number]
        self.ways[wave.number].append((code.number, truth))
        self.branches.add(code.number)
        return truth

    def _number(self, wave: Wave, code: DecodedInstruction) -> bytes | None:
        base = code.item.base
        if "scc" in base:
            return self.condition(wave).tobytes()
        if "vcc" in base:
            bits = self._mask(wave, replace(_VCC_PAIR, count=wave.width // 32))
            return _one_number(bits[(bits != ZERO).any(axis=1)])
        mask = narrowing_mask(wave, code)
        return None if mask is None else _one_number(self._mask(wave, mask)[wave.active])


def _one_number(bits: Numbers) -> bytes | None:
    same = len(bits) > 0 and bool((bits == bits[0]).all())
    return bits[0].tobytes() if same else None


def _goes_on(code: DecodedInstruction) -> bool:
    """The longer way first, that of further rounds: what does not end shows at once."""
    back = 0 <= code.item.target <= code.number
    return back is not code.item.base.endswith(("0", "vccz"))


@dataclass(frozen=True, slots=True)
class DecidedWays:
    """The launches of all ways, or of those up to the first that does not come to its end; or `why`
    they are not all known. `branches`: those that were decided, by instruction."""

    launches: tuple[Launch, ...] = ()
    branches: tuple[int, ...] = ()
    why: str = ""


def decided_ways(
    launch: Launch, made: Callable[[Sequence[bool]], tuple[Run, DecidingValues]]
) -> DecidedWays | None:
    """All ways of a run that a condition on data has ended; None where it is not shown that it is
    one condition for all lanes of a wave. `made` makes a run by a script."""
    found: list[Launch] = []
    branches: set[int] = set()
    chosen: list[tuple[bool, bool]] = []  # each truth, and whether it is the second one tried
    while True:
        if len(found) == PATHS_MAX:
            return DecidedWays(why=TOO_MANY)
        run, values = made([truth for truth, _ in chosen])
        if values.too_many or run.outcome.ending is Ending.BUDGET:
            return DecidedWays(why=TOO_MANY)
        if not values.truths:
            return None
        branches |= values.branches
        ways = {wave: tuple(one) for wave, one in values.ways.items()}
        found.append(replace(launch, wave_ways=ways))
        if run.outcome.ending is not Ending.FINISHED:
            return DecidedWays(tuple(found[-1:]), tuple(sorted(branches)))
        chosen += [(truth, False) for truth in values.truths[len(chosen) :]]
        while chosen and chosen[-1][1]:
            chosen.pop()
        if not chosen:
            return DecidedWays(tuple(found), tuple(sorted(branches)))
        chosen[-1] = not chosen[-1][0], True
