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

A loop with barriers that data alone end has paths without end. There the states of the block at its
barriers are compared (`repeated_states.py`): where one has been gone on from, on this path or
another, all ways behind it are runs already, and the path leaves its loops by the shortest ways. So
the runs are those of any number of rounds; that the loop ends is assumed. Registers that other
known numbers are in each round (a count of the rounds) are in the way: what gives them is taken to
give something unknown then, made of the same operands.

The decisions of a path, by warp, become `Launch.decisions`, by which every machine makes its run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from titan.isa.simt import events as ev
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.operations import PURE, DecodedStep, Op
from titan.isa.simt.outcome import INSTRUCTIONS_MAX, Ending, Policy, PreparedLaunch, Run
from titan.isa.simt.run import run_prepared
from titan.isa.simt.state import Cta, Fragment, Warp
from titan.isa.simt.tracing.executed_step import UNTRACED, ExecutedStep, is_untraced
from titan.isa.simt.tracing.repeated_states import Key, SealedStates
from titan.isa.simt.tracing.traced import TracingExecution
from titan.isa.simt.tracing.traced_memory import Traced
from titan.isa.simt.undefined_results import open_test
from titan.isa.simt.values import LANES, Opaque, Value, lane, lanes_of

DECISIONS_MAX = 12  # of one path
PATHS_MAX = 24
ROUNDS_DECISIONS_MAX, ROUNDS_PATHS_MAX = 40, 120  # the same where states are compared
LEAVING_MAX = 40  # decisions of a path behind the state that has been gone on from
WATCH_STEPS = 2_000  # without a decision, before it is asked whether a run goes around
WIDENED_MAX = 3  # times that steps are taken to give something unknown
WORK_MAX = INSTRUCTIONS_MAX  # warp instructions of all paths
TOO_MANY = "data decide the rounds of a loop with barriers, or more ways than are tried"
ENDLESS = "a loop with barriers does not end for some data: no round changes what decides it"
INDEXED = "a count of rounds that data decide says which memory of the block is read"
UNFOLLOWED = "values that decide are not followed, as stores are at unknown addresses"


@dataclass(frozen=True, slots=True)
class DecidedPaths:
    """All paths of a run through branches on data, or `why` they are not all shown. `branches`:
    those that were decided, by instruction; `rounds`: whether there are loops of any number of
    rounds."""

    runs: tuple[Run, ...] = ()
    branches: tuple[int, ...] = ()
    why: str = ""
    rounds: bool = False


@dataclass(slots=True)
class _Limits:
    """What is tried. `states`: the truths behind which each was come to first, if states are
    compared."""

    decisions: int
    paths: int
    states: dict[Key, tuple[bool, ...]] | None = None


@dataclass(slots=True)
class _Watched:
    """A state of a run that has not decided anything for many steps: how often it had, since which
    step, from which on another state is taken, and the barriers and the state of it."""

    decisions: int = 0
    since: int = 0
    again: int = 0
    at: tuple[int, ...] = ()
    state: Key | None = None


class _Deciding(TracingExecution):
    """A run with numbered values that goes by `script`, the truth of one guard after the other in
    the order in which their numbers come up, and by a guess behind its end."""

    def __init__(self, made: PreparedLaunch, script: list[bool], limits: _Limits) -> None:
        super().__init__(made)
        self.sealed = SealedStates(self, self.numbers)
        self._script = script
        self._limits = limits
        self._compared = 0  # decisions at the last state
        self._watched = _Watched()
        self.endless = False
        self._leaving = 0  # decisions behind one that has been gone on from, from 1 on
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
            # The longer way first, that of further rounds: what does not end shows at once.
            longer = (step.flags[0] <= pc) != step.negated
            at = len(self.truths)
            if self._leaving:
                self._leaving += 1
                self.too_many = self._leaving > LEAVING_MAX
            else:
                self.too_many = at == self._limits.decisions
            if self.too_many:
                return None
            if self._leaving:
                self._truth[number] = not longer
            else:
                self._truth[number] = self._script[at] if at < len(self._script) else longer
                self.truths.append(self._truth[number])
        jumps = self._truth[number] != step.negated
        self.ways.setdefault((warp.cta.number, warp.index), []).append(jumps)
        self.branches.add(pc)
        return jumps

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction; states are compared where it completes a barrier."""
        op = self.steps[fragment.pc].op
        found = super().step(fragment)
        if op is Op.BARRIER_NAMED and not self._leaving and self.truths:
            self._watch(fragment)
            self._compare(fragment.warp.cta)
        return found

    def stands(self, steps: int) -> bool:
        """Whether nothing was decided for so many steps."""
        return bool(self.truths) and self.count - self._watched.since > steps

    def _compare(self, cta: Cta) -> None:
        """At the first barrier in a loop behind a decision: whether its state is known."""
        if self._limits.states is None or self._compared == len(self.truths):
            return
        at = self.sealed.barrier_of(cta)
        key = self.sealed.seal(cta, at, self._truth) if at else None
        if key is None:
            return
        self._compared = len(self.truths)
        node = tuple(self.truths)
        if self._limits.states.setdefault(key, node) != node:
            self._leaving = 1

    def _watch(self, fragment: Fragment) -> None:
        """End a run that goes around without a decision: but for the names of values its state is
        one from before, and what has decided between the two decides alike again."""
        watched = self._watched
        if watched.decisions != len(self.truths):
            self._watched = _Watched(len(self.truths), self.count, self.count + WATCH_STEPS)
        elif self.count >= watched.again or watched.at:
            cta = fragment.warp.cta
            at = self.sealed.barrier_of(cta)
            if not at or (self.count < watched.again and at != watched.at):
                return
            state = self.sealed.state(cta, at)
            if state is not None and state == watched.state:
                self.endless = True
                self.refuse(fragment, ENDLESS)
            if self.count >= watched.again:
                watched.at, watched.state = at, state
                watched.again += self.count - watched.since

    def write(self, warp: Warp, register: int, value: Value, mask: int, marks: int = 0) -> None:
        """Write a register, and note which instruction does."""
        super().write(warp, register, value, mask, marks)
        if self.current is not None:
            self.sealed.writers[warp.index, register] = self.current.pc


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
    found, _ = _all_paths(made, _Limits(DECISIONS_MAX, PATHS_MAX))
    tried = 0
    while found is not None and found.why == TOO_MANY and tried <= WIDENED_MAX:
        tried += 1
        limits = _Limits(ROUNDS_DECISIONS_MAX, ROUNDS_PATHS_MAX, {})
        found, moving = _all_paths(made, limits, widened=tried > 1)
        if not moving:
            break
        steps = list(made.code.steps)
        for at in moving:
            steps[at] = replace(steps[at], op=Op.OPAQUE, flags=())
        made = replace(made, code=replace(made.code, steps=tuple(steps)))
    return found


def _all_paths(
    made: PreparedLaunch, limits: _Limits, *, widened: bool = False
) -> tuple[DecidedPaths | None, set[int]]:
    """The paths, and the instructions that gave registers other numbers in each round. `widened`:
    whether some give something unknown."""
    found: list[Run] = []
    branches: set[int] = set()
    moving: set[int] = set()
    chosen: list[tuple[bool, bool]] = []  # each truth, and whether it is the second one tried
    work = 0
    while True:
        if len(found) == limits.paths or work >= WORK_MAX:
            return DecidedPaths(why=TOO_MANY), moving
        bounded = replace(made, options=replace(made.options, steps_max=WORK_MAX - work))
        machine = _Deciding(bounded, [truth for truth, _ in chosen], limits)
        traced = machine.run()
        moving |= {at for at in machine.sealed.moving if _may_widen(made, at)}
        if machine.endless:
            return DecidedPaths(why=ENDLESS), moving
        if traced.outcome.ending is Ending.BUDGET and machine.stands(WORK_MAX // 2):
            return DecidedPaths(why=ENDLESS), moving
        if machine.too_many or traced.outcome.ending is Ending.BUDGET:
            return DecidedPaths(why=TOO_MANY), moving
        if not machine.truths:
            return None, moving
        work += traced.instructions
        branches |= machine.branches
        path = _path(made, machine, traced)
        if path is None:
            return DecidedPaths(why=UNFOLLOWED), moving
        rounds = limits.states is not None
        if widened and any(_reads_somewhere(event, made) for event in path.events):
            return DecidedPaths(why=INDEXED), moving
        if path.outcome.ending is not Ending.FINISHED:
            return DecidedPaths((path,), tuple(sorted(branches)), rounds=rounds), moving
        found.append(path)
        chosen += [(truth, False) for truth in machine.truths[len(chosen) :]]
        while chosen and chosen[-1][1]:
            chosen.pop()
        if not chosen:
            return DecidedPaths(tuple(found), tuple(sorted(branches)), rounds=rounds), moving
        chosen[-1] = not chosen[-1][0], True


def _reads_somewhere(event: ev.Event, made: PreparedLaunch) -> bool:
    """Whether it is not known where memory is read that may lack what is read: with the numbers
    that were in a register it would show."""
    if not isinstance(event, ev.Assumption) or event.policy not in UNTRACED:
        return False
    step = made.code.steps[event.instruction]
    return step.op is not Op.LOAD or step.flags[0] != MemorySpace.GLOBAL


def _may_widen(made: PreparedLaunch, at: int) -> bool:
    """Whether an instruction computes from registers alone, so that its result may be unknown."""
    step = made.code.steps[at]
    return step.op in PURE and step.op is not Op.OPAQUE and bool(step.args)


def _path(made: PreparedLaunch, machine: _Deciding, traced: Run) -> Run | None:
    """The run by the decisions of a traced one; None where the values could not be followed."""
    if machine.unsure or any(is_untraced(event, made.code.steps) for event in traced.events):
        return None
    ways = {warp: tuple(jumps) for warp, jumps in machine.ways.items()}
    launch = replace(made.launch, decisions=ways)
    found, _ = run_prepared(replace(made, launch=launch))
    same = list(found.events) == list(traced.events) and found.outcome == traced.outcome
    return found if same else None
