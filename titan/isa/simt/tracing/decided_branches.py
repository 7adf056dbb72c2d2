"""Branches on unknown data with barriers in their arms, where whole warps are shown to go one way.

A run is made with numbered values (`traced.py`). Where all lanes of a warp come to such a branch,
and all their guards have one number, they go the same way; so do other warps whose guards have that
number, and so it is each time. A number is decided once, and each combination of decisions is a run
of its own. Numbers that differ are decided apart, so that warps whose guards are not shown to be
equal are tried on different ways too: nothing is taken to be the same for a block.

What has one number is equal in every interleaving of a run in which no accesses race. So a
combination is right where its run is judged and verified; an interleaving that leaves all of these
runs would have to leave one at a first branch, of which the guards rest on what that run has
ordered. A combination that data cannot bring about is tried too, so what goes wrong in one alone
refutes nothing.

The decisions of a path, by warp, become `Launch.decisions`, by which every machine makes its run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from titan.isa.simt.operations import DecodedStep
from titan.isa.simt.outcome import INSTRUCTIONS_MAX, Ending, Policy, PreparedLaunch, Run
from titan.isa.simt.run import run_prepared
from titan.isa.simt.state import Fragment
from titan.isa.simt.tracing.executed_step import ExecutedStep, is_untraced
from titan.isa.simt.tracing.traced import TracingExecution
from titan.isa.simt.tracing.traced_memory import Traced
from titan.isa.simt.undefined_results import open_test
from titan.isa.simt.values import LANES, Opaque, Value, lane, lanes_of

DECISIONS_MAX = 12  # of one path
PATHS_MAX = 24
WORK_MAX = INSTRUCTIONS_MAX  # warp instructions of all paths
TOO_MANY = "data decide the rounds of a loop with barriers, or more ways than are tried"
UNFOLLOWED = "values that decide are not followed, as stores are at unknown addresses"


@dataclass(frozen=True, slots=True)
class DecidedPaths:
    """All paths of a run through branches on data, or `why` they are not all shown. `branches`:
    those that were decided, by instruction."""

    runs: tuple[Run, ...] = ()
    branches: tuple[int, ...] = ()
    why: str = ""


class _Deciding(TracingExecution):
    """A run with numbered values that goes by `script`, the truth of one guard after the other in
    the order in which their numbers come up, and by a guess behind its end."""

    def __init__(self, made: PreparedLaunch, script: list[bool]) -> None:
        super().__init__(made)
        self._script = script
        self._truth: dict[int, bool] = {}
        self.truths: list[bool] = []
        self.ways: dict[tuple[int, int], list[bool]] = {}
        self.branches: set[int] = set()
        self.too_many = False

    def _numbered(self, register: int, value: Value, mask: int) -> Value:
        """As any traced run; what is made of a value of the moment differs from lane to lane, and
        so does what PTX leaves open."""
        now = self.current
        operands = [] if now is None else now.operands
        if now is not None and _left_open(now, mask):
            items = list(value) if isinstance(value, list) else [value] * LANES
            fresh = self.numbers.fresh
            return [
                Traced(item.site, fresh(), now.node) if isinstance(item, Opaque) else item
                for item in items
            ]
        moment = any(isinstance(v, Opaque) and not isinstance(v, Traced) for v in operands)
        if moment and isinstance(value, Opaque):
            value = [value] * LANES
        return super()._numbered(register, value, mask)

    def assume(self, fragment: Fragment, mask: int, policy: Policy) -> None:
        """As any run; it ends where what is written cannot be followed (`is_untraced`)."""
        super().assume(fragment, mask, policy)
        if is_untraced(self.events[-1], self.steps):
            self.refuse(fragment, UNFOLLOWED)

    def decided(self, fragment: Fragment, step: DecodedStep) -> bool | None:
        """Which way the warp goes, if its lanes are shown to go the same one."""
        warp, pc = fragment.warp, fragment.pc
        numbers: set[int] = set()
        for index in lanes_of(fragment.mask):
            item = lane(warp.registers[step.guard], index)
            if not isinstance(item, Traced):
                return None
            numbers.add(item.number)
        if len(numbers) != 1:
            return None
        number = numbers.pop()
        if number not in self._truth:
            if len(self.truths) == DECISIONS_MAX:
                self.too_many = True
                return None
            # The longer way first, that of further rounds: what does not end shows at once.
            longer = (step.flags[0] <= pc) != step.negated
            at = len(self.truths)
            self._truth[number] = self._script[at] if at < len(self._script) else longer
            self.truths.append(self._truth[number])
        jumps = self._truth[number] != step.negated
        self.ways.setdefault((warp.cta.number, warp.index), []).append(jumps)
        self.branches.add(pc)
        return jumps


def _left_open(now: ExecutedStep, mask: int) -> bool:
    """Whether PTX does not say what the instruction gives some lane (`undefined_results.py`)."""
    test = open_test(now.step)
    if test is None:
        return False
    return any(test([lane(value, index) for value in now.operands]) for index in lanes_of(mask))


def decided_paths(run: Run) -> DecidedPaths | None:
    """All paths of a run that a branch on unknown data has ended, or the first that does not come
    to its end; None where no guard is shown to be the same for the lanes of a warp.
    """
    made = run.prepared
    if made is None or run.outcome.ending is not Ending.REFUSED or made.launch.decisions:
        return None
    if run.outcome.site not in made.code.regions or run.instructions > INSTRUCTIONS_MAX:
        return None
    if any(is_untraced(event, made.code.steps) for event in run.events):
        return None
    found: list[Run] = []
    branches: set[int] = set()
    chosen: list[tuple[bool, bool]] = []  # each truth, and whether it is the second one tried
    work = 0
    while True:
        if len(found) == PATHS_MAX or work >= WORK_MAX:
            return DecidedPaths(why=TOO_MANY)
        bounded = replace(made, options=replace(made.options, steps_max=WORK_MAX - work))
        machine = _Deciding(bounded, [truth for truth, _ in chosen])
        traced = machine.run()
        if machine.too_many or traced.outcome.ending is Ending.BUDGET:
            return DecidedPaths(why=TOO_MANY)
        if not machine.truths:
            return None
        work += traced.instructions
        branches |= machine.branches
        path = _path(made, machine, traced)
        if path is None:
            return DecidedPaths(why=UNFOLLOWED)
        if path.outcome.ending is not Ending.FINISHED:
            return DecidedPaths((path,), tuple(sorted(branches)))
        found.append(path)
        chosen += [(truth, False) for truth in machine.truths[len(chosen) :]]
        while chosen and chosen[-1][1]:
            chosen.pop()
        if not chosen:
            return DecidedPaths(tuple(found), tuple(sorted(branches)))
        chosen[-1] = not chosen[-1][0], True


def _path(made: PreparedLaunch, machine: _Deciding, traced: Run) -> Run | None:
    """The run by the decisions of a traced one; None where the values could not be followed."""
    if machine.unsure or any(is_untraced(event, made.code.steps) for event in traced.events):
        return None
    ways = {warp: tuple(jumps) for warp, jumps in machine.ways.items()}
    launch = replace(made.launch, decisions=ways)
    found, _ = run_prepared(replace(made, launch=launch))
    same = list(found.events) == list(traced.events) and found.outcome == traced.outcome
    return found if same else None
