"""Random programs of CTAs that take locks, against an explorer of all interleavings."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frontends.grid_kernels import Clock, by_cta, join
from tests.frontends.test_locks import REFUTED, VERIFIED, found
from tests.sampling import part

CTAS, LOCKS, SLOTS = 3, 2, 2
FLAG = 2  # the word behind the locks
ZERO: Clock = (0,) * CTAS


@dataclass(frozen=True)
class _Step:
    """What a CTA does next: `kind` is read or write (of slot `at`), take or give (of lock `at`), or
    flag: write slot `at` and set the flag where it is not set, else read the slot. `strong`: with
    acquire or release; `fence` behind what takes, or before what gives; `swaps`: a release by an
    atomic."""

    kind: str
    at: int
    strong: bool = True
    fence: bool = False
    swaps: bool = False

    def ptx(self, label: str) -> str:
        """The step as instructions of one thread."""
        slot, word = f"[%d0+{4 * self.at}]", f"[%d1+{4 * self.at}]"
        if self.kind == "read":
            return f"ld.global.u32 %r9, {slot};"
        if self.kind == "write":
            return f"st.global.u32 {slot}, %r30;"
        if self.kind == "flag":
            return (f"ld.global.u32 %r10, [%d1+{4 * FLAG}]; setp.ne.u32 %p3, %r10, 0; "
                    f"@%p3 bra E{label}; bar.warp.sync 1; st.global.u32 {slot}, %r30; "
                    f"st.global.u32 [%d1+{4 * FLAG}], 1; bra D{label}; "
                    f"E{label}: ld.global.u32 %r9, {slot}; D{label}:")  # fmt: skip
        fence = "fence.acq_rel.gpu; " if self.fence else ""
        if self.kind == "take":
            form = "acquire.gpu" if self.strong else "relaxed.gpu"
            return (f"{label}: atom.{form}.global.cas.b32 %r5, {word}, 0, 1; "
                    f"setp.ne.u32 %p2, %r5, 0; @%p2 bra {label}; {fence}")  # fmt: skip
        form = "release.gpu" if self.strong else "relaxed.gpu"
        if self.swaps:
            return f"{fence}atom.{form}.global.exch.b32 %r6, {word}, 0;"
        return f"{fence}st.{form}.global.u32 {word}, 0;"


_Program = tuple[tuple[_Step, ...], ...]


@dataclass(frozen=True)
class _Cta:
    """A CTA: its next step, what it knows of the others, and what it knew at its last fence."""

    at: int = 0
    known: Clock = ZERO
    fenced: Clock = ZERO


@dataclass(frozen=True)
class _State:
    """`locks`: whether each is taken, and what it hands on; `last`: which accesses were made."""

    ctas: tuple[_Cta, ...]
    locks: tuple[tuple[bool, Clock], ...]
    flag: bool
    made: frozenset[tuple[int, int, str, bool]]  # CTA, its step, place, whether it writes


class _Explorer:
    """Every interleaving. `races` and `stuck` say what some interleaving has."""

    def __init__(self, program: _Program) -> None:
        self.program = program
        self.races = self.stuck = False
        first = _State((_Cta(),) * CTAS, ((False, ZERO),) * LOCKS, False, frozenset())
        work, seen = [first], {first}
        while work and not (self.races and self.stuck):
            for state in self._next(work.pop()):
                if state not in seen:
                    seen.add(state)
                    work.append(state)

    def _next(self, state: _State) -> list[_State]:
        found = []
        for number, cta in enumerate(state.ctas):
            steps = self.program[number]
            if cta.at < len(steps):
                step = steps[cta.at]
                if step.kind != "take" or not state.locks[step.at][0]:
                    found.append(self._done(state, number, step))
        if not found and any(c.at < len(s) for c, s in zip(state.ctas, self.program, strict=True)):
            self.stuck = True
        return found

    def _done(self, state: _State, number: int, step: _Step) -> _State:
        cta = state.ctas[number]
        clock = list(cta.known)
        clock[number] = cta.at + 1
        known, fenced = tuple(clock), cta.fenced
        locks, flag, made = list(state.locks), state.flag, state.made
        if step.kind in ("read", "write"):
            made = self._accessed(made, number, cta, f"s{step.at}", writes=step.kind == "write")
        elif step.kind == "flag":
            made = self._accessed(made, number, cta, "flag", writes=False)
            made = self._accessed(made, number, cta, f"s{step.at}", writes=not flag)
            if not flag:
                made = self._accessed(made, number, cta, "flag", writes=True)
            flag = True
        elif step.kind == "take":
            held = locks[step.at][1]
            if step.strong or step.fence:
                known = join(known, held)
            locks[step.at] = True, join(held, fenced)
            fenced = known if step.fence else fenced
        else:
            fenced = known if step.fence else fenced
            gives = known if step.strong else fenced
            held = locks[step.at][1] if step.swaps else ZERO
            locks[step.at] = False, join(held, gives)
        ctas = list(state.ctas)
        ctas[number] = _Cta(cta.at + 1, known, fenced)
        return _State(tuple(ctas), tuple(locks), flag, made)

    def _accessed(
        self, made: frozenset[tuple[int, int, str, bool]], number: int, cta: _Cta, place: str,
        *, writes: bool,
    ) -> frozenset[tuple[int, int, str, bool]]:  # fmt: skip
        for other, step, where, wrote in made:
            if (
                other != number
                and where == place
                and (writes or wrote)
                and step >= cta.known[other]
            ):
                self.races = True
        return made | {(number, cta.at, place, writes)}


@st.composite
def _programs(draw: st.DrawFn) -> _Program:
    """CTAs that take locks around what they do, with a fault here and there."""
    sound = draw(st.booleans())
    home = draw(st.integers(0, LOCKS - 1))

    def rarely(of: int = 8) -> bool:
        return not sound and draw(st.integers(0, of)) == 0

    def data() -> _Step:
        return _Step(draw(st.sampled_from(("read", "write", "flag"))), draw(st.integers(0, 1)))

    def form() -> tuple[bool, bool]:
        return draw(st.sampled_from(((True, False), (False, True)))) if not rarely() else (
            False, False)  # fmt: skip

    def section(nested: bool) -> list[_Step]:
        lock = home if not rarely() else 1 - home
        steps = [] if rarely() else [_Step("take", lock, *form())]
        steps += [data() for _ in range(draw(st.integers(1, 2)))]
        if nested:
            inner = section(nested=False)
            turn = sound or draw(st.booleans())
            steps += [
                _Step(one.kind, 1 - one.at, one.strong, one.fence, one.swaps)
                if turn and one.kind in ("take", "give") else one
                for one in inner
            ]  # fmt: skip
        if not rarely():
            steps.append(_Step("give", lock, *form(), draw(st.booleans())))
        return steps

    program = []
    for _ in range(CTAS):
        own: list[_Step] = []
        for _ in range(draw(st.integers(0, 2))):
            own += section(nested=draw(st.integers(0, 3)) == 0)
        if rarely(3):
            own.insert(draw(st.integers(0, len(own))), data())
        program.append(tuple(own[:9]))
    return tuple(program)


@settings(max_examples=part(300), deadline=None, derandomize=True)
@given(_programs())
def test_random_programs_in_all_interleavings(program: _Program) -> None:
    if sum(any(step.kind == "take" for step in steps) for steps in program) < 2:
        return
    explored = _Explorer(program)
    wrong = explored.races or explored.stuck
    verdict, text = found(by_cta(program), CTAS)
    if verdict is VERIFIED:
        assert not wrong, (by_cta(program), text)
    if verdict is REFUTED:
        assert wrong, (by_cta(program), text)


@st.composite
def _sections(draw: st.DrawFn) -> _Program:
    """CTAs that do all they do in one section of one lock, in each form that is right."""
    forms = st.sampled_from(((True, False), (False, True), (True, True)))
    lock = draw(st.integers(0, LOCKS - 1))
    program = []
    for _ in range(CTAS):
        data = st.builds(_Step, st.sampled_from(("read", "write", "flag")), st.integers(0, 1))
        own = draw(st.lists(data, min_size=1, max_size=3))
        give = _Step("give", lock, *draw(forms), draw(st.booleans()))
        program.append((_Step("take", lock, *draw(forms)), *own, give))
    return tuple(program)


@settings(max_examples=part(60), deadline=None, derandomize=True)
@given(_sections())
def test_sections_of_one_lock_are_verified(program: _Program) -> None:
    explored = _Explorer(program)
    assert not explored.races
    assert not explored.stuck
    verdict, text = found(by_cta(program), CTAS)
    assert verdict is VERIFIED, (by_cta(program), text)


@settings(max_examples=part(60), deadline=None, derandomize=True)
@given(_sections(), st.integers(0, CTAS - 1), st.sampled_from((0, -1)))
def test_sections_with_a_relaxed_end_are_not(program: _Program, cta: int, end: int) -> None:
    steps = list(program[cta])
    steps[end] = _Step(steps[end].kind, steps[end].at, strong=False)
    program = (*program[:cta], tuple(steps), *program[cta + 1 :])
    explored = _Explorer(program)
    verdict, text = found(by_cta(program), CTAS)
    assert (verdict is REFUTED) is explored.races, (by_cta(program), text)
