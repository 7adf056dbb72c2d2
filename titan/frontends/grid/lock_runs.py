"""What each CTA of a launch may do between locks, whatever CTA has them before.

A CTA is run alone, and finds each lock free when it takes it. Before that it may have found it
taken, any number of times: the states that it comes to then are followed until they repeat
(`lock_states.py`), and the CTA is run from each of them.

Data that a lock protects are not known to it, but for *guards*: words that decide what it does and
that it reads while it has a lock, such as a flag that says whether a sum has begun. Their numbers
are those that sections of the lock leave, one after the other, in any order of the CTAs, from what
the launch gives. For each of them the CTA is run.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TypeGuard

from titan.foundation.errors import TitanError
from titan.frontends.grid.asked_words import (
    Answers,
    AskedRuns,
    AskedWord,
    Given,
    Item,
    NotWaiting,
    question_of,
    writes_of,
)
from titan.frontends.grid.lock_states import ParkedState, ParkedStates, check_alone
from titan.frontends.grid.lock_words import (
    QUESTIONS_MAX,
    LockUse,
    LockWord,
    check_certain,
    held_by,
    is_load,
    item_asked,
    items_on,
    locks_of,
    use_of,
    with_numbers,
)
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import MemorySpace
from titan.isa.simt.launch import WORD_BYTES
from titan.isa.simt.outcome import Ending, Run

ROUNDS = 16  # in which locks, guards and what CTAs write are found
SPINS_MAX = 16  # states of a CTA that finds a lock taken
VARIANTS_MAX = 4_000  # of all CTAs
Numbers = tuple[bytes, ...]  # of the guards of a lock, by address


class GuardError(TitanError):
    """A guard was found that was not known; the runs have to be made again."""


class KeptError(NotWaiting):
    """A CTA tries to take a lock that it has, forever. `given`: what it finds in guards."""

    def __init__(self, cta: int, given: Given, instruction: int) -> None:
        super().__init__("a CTA takes a lock that it has", instruction)
        self.cta, self.given = cta, given


@dataclass(frozen=True, slots=True)
class Guard:
    """A word that decides what CTAs do while they have a lock."""

    address: int
    size: int
    lock: int


@dataclass(frozen=True, slots=True, eq=False)
class LockVariant:
    """A run of a CTA. `given`: what it finds in guards, by lock in `numbers`; `spins`: its answers
    while it finds a lock taken; `left`: what it leaves in guards, by lock."""

    cta: int
    given: Given
    numbers: Mapping[int, Numbers]
    spins: Answers
    run: Run
    items: list[Item]
    use: LockUse
    left: Mapping[int, Numbers]


@dataclass(slots=True)
class _Walk:
    """A run with its answers. `taking`: the answers before each lock that it takes, and the lock;
    `taken`: the answers up to where it has it."""

    run: Run
    answers: Answers
    taking: list[tuple[Answers, int]] = field(default_factory=list)
    taken: list[Answers] = field(default_factory=list)


class LockRuns:
    """The runs of the CTAs of a launch. Raises NotWaiting for what is not followed.

    `bare`: with nothing known of memory but locks, guards and variables of the module. What a
    launch gives then says nothing of the data, so that they are compared as what they are made of.
    """

    def __init__(self, runs: AskedRuns, *, bare: bool) -> None:
        self.runs = runs
        self.bare = bare
        self.states = ParkedStates(runs.made.code)
        self.locks: dict[int, LockWord] = {}
        self.guards: dict[int, Guard] = {}
        self._found: dict[int, Guard] = {}  # guards that the next runs are given
        self.written: set[tuple[int, int]] = set()
        self.variants: list[LockVariant] = []
        self.ctas = range(runs.made.launch.ctas)
        self.takes: dict[int, set[int]] = {cta: set() for cta in self.ctas}
        self._parked: dict[tuple[int, Answers, Given], ParkedState] = {}
        self._spun: dict[tuple[int, Given, Answers, int], list[Answers]] = {}

    def explore(self) -> None:
        """All runs: `variants`."""
        for cta in self.ctas:
            self.takes[cta] = locks_of(self.runs, cta, self.locks)
        self.runs.bare = self.bare
        self.runs.forget()
        spins = False  # they cost most, and change little
        for _ in range(ROUNDS):
            again = self._explored(spins=spins)
            if not again and spins:
                return
            spins = spins or not again
        raise NotWaiting("what CTAs write depends on what they find in memory")

    def words(self) -> dict[int, tuple[int, int]]:
        """Locks and guards, with their sizes and numbers at the start."""
        found = {at: (lock.size, lock.free) for at, lock in self.locks.items()}
        for at, guard in self.guards.items():
            number = self.runs.number_at(at, guard.size)
            assert number is not None
            found[at] = guard.size, number
        return found

    def _explored(self, *, spins: bool) -> bool:
        """Make all runs with what is known, those that find locks taken with `spins`; whether more
        became known."""
        if self.runs.know(self.words(), self.written):
            self._parked.clear()
            self._spun.clear()
        self.variants = []
        self._found = {}
        reached: dict[int, dict[Numbers, int]] = {
            lock: {self.start(lock): 0} for lock in self.locks
        }
        counts = {lock: sum(lock in own for own in self.takes.values()) for lock in self.locks}
        done: dict[tuple[int, Given], list[LockVariant]] = {}
        takes = {cta: set(own) for cta, own in self.takes.items()}
        moved = True
        while moved:
            moved = False
            for cta in self.ctas:
                for depths, numbers in list(self._combined(cta, reached, counts)):
                    key = cta, self.given(numbers)
                    if key not in done:
                        try:
                            done[key] = list(self._variants(*key, numbers, spins=spins))
                        except GuardError:
                            done[key] = []
                        self._note(cta, done[key])
                    moved = _reach(done[key], depths, reached) or moved
        attempts = [item for variant in self.variants for item in variant.use.attempts]
        locks = with_numbers(self.locks, attempts)
        before = self.written
        self.written = before | {
            pair for variant in self.variants for _, pair in writes_of(variant.run)
        }
        self.guards |= self._found
        news = (
            bool(self._found)
            or locks != self.locks
            or before != self.written
            or takes != self.takes
        )
        if locks != self.locks:
            self._spun.clear()
        self.locks = locks
        return news

    def _note(self, cta: int, variants: list[LockVariant]) -> None:
        self.variants += variants
        if len(self.variants) > VARIANTS_MAX:
            raise NotWaiting(f"CTAs have more than {VARIANTS_MAX:,} ways between locks")
        for variant in variants:
            self._take(cta, variant.items, variant.use)

    def _take(self, cta: int, items: Sequence[Item], use: LockUse) -> None:
        own = {section.lock for section in use.sections}
        self.takes[cta] |= own | {items[at].address for at in use.kept}

    # ----------------------------------------------------------------------------- guards

    def _of(self, lock: int) -> list[Guard]:
        return sorted(
            (one for one in self.guards.values() if one.lock == lock), key=lambda one: one.address
        )

    def start(self, lock: int) -> Numbers:
        """What the guards of a lock hold when the launch begins."""
        found = []
        for guard in self._of(lock):
            number = self.runs.number_at(guard.address, guard.size)
            assert number is not None
            found.append(number.to_bytes(guard.size, "little"))
        return tuple(found)

    def _combined(
        self, cta: int, reached: Mapping[int, Mapping[Numbers, int]], counts: Mapping[int, int]
    ) -> Iterator[tuple[dict[int, int], dict[int, Numbers]]]:
        """What a CTA may find in the guards of its locks, and how many sections were before it."""
        own = self.guarded(cta)
        choices = [
            [(depth, numbers) for numbers, depth in reached[lock].items() if depth < counts[lock]]
            for lock in own
        ]
        for chosen in product(*choices):
            depths = dict.fromkeys(self.locks, 0)
            depths |= {lock: depth for lock, (depth, _) in zip(own, chosen, strict=True)}
            yield depths, {lock: one for lock, (_, one) in zip(own, chosen, strict=True)}

    def guarded(self, cta: int) -> list[int]:
        """The locks of a CTA under which words decide."""
        return [lock for lock in sorted(self.takes[cta]) if self._of(lock)]

    def given(self, numbers: Mapping[int, Numbers]) -> Given:
        """What guards hold, by lock, as bytes of memory."""
        return tuple(
            (guard.address, data)
            for lock, found in sorted(numbers.items())
            for guard, data in zip(self._of(lock), found, strict=True)
        )

    def _left(self, cta: int, run: Run, use: LockUse) -> dict[int, Numbers]:
        """What a run leaves in the guards of the locks that it takes."""
        found = {}
        for lock in sorted({section.lock for section in use.sections} & self.takes[cta]):
            guards = self._of(lock)
            if not guards:
                continue
            if sum(section.lock == lock for section in use.sections) > 1:
                raise NotWaiting("a CTA takes a lock again under which words decide what it does")
            ranges = tuple((one.address, one.address + one.size) for one in guards)
            left = [data for data in self.runs.left_by(run, ranges) if data is not None]
            if len(left) < len(guards):
                raise NotWaiting("what a CTA leaves in a word that decides is not known")
            found[lock] = tuple(left)
        return found

    def _find_guard(self, cta: int, run: Run) -> None:
        """Note what a run was refused for as a guard. Raises GuardError, or NotWaiting."""
        outcome = run.outcome
        if outcome.ending is not Ending.REFUSED:
            raise NotWaiting("the run of a CTA does not come to its end", outcome.site)
        items = items_on(run, self.locks)
        reads = [event for event in run.events if _reads_word(event)]
        made = [event for event in reads if event.instruction == outcome.origin]
        takes = set(self.takes[cta])
        self._take(cta, items, use_of(run, items, self.locks))
        news = takes != self.takes[cta]
        for event in made[-1:] or reads:
            news = self._add_guard(run, items, event, needed=bool(made)) or news
        if not news:
            raise NotWaiting(f"data decide what a CTA does: {outcome.reason}", outcome.site)
        raise GuardError

    def _add_guard(
        self, run: Run, items: list[Item], event: ev.AccessEvent, *, needed: bool
    ) -> bool:  # fmt: skip
        ((low, high),) = event.footprint.ranges()
        at, size = low, high - low
        if at in self.guards or at in self.locks:
            return False
        before = [item for item in items if item.place < event.sequence]
        use = use_of(run, before, self.locks)
        if not use.kept or self.runs.number_at(at, size) is None:
            if needed:
                raise NotWaiting(
                    f"the number at global+{at:#x}, which decides, is not known at the start: the "
                    "launch may give it"
                    if use.kept
                    else "what another CTA may write decides, and is read outside of locks",
                    event.instruction,
                )
            return False
        known = [*self.guards.values(), *self._found.values()]
        common = [one for one in known if one.address < high and low < one.address + one.size]
        if any((one.address, one.size) != (at, size) for one in common):
            raise NotWaiting("a word that decides is read in several sizes", event.instruction)
        if common:
            return True
        self._found[at] = Guard(at, size, before[use.kept[-1]].address)
        return True

    # -------------------------------------------------------------------------------- runs

    def _variants(
        self, cta: int, given: Given, numbers: Mapping[int, Numbers], *, spins: bool
    ) -> Iterator[LockVariant]:  # fmt: skip
        """The runs of a CTA that finds these numbers in guards."""
        first = self._walked(cta, given, {})
        yield self._variant(cta, given, numbers, (), first)
        several = len(first.taking) > 1
        for at, (before, lock) in enumerate(first.taking if spins else ()):
            then = self._state(cta, first.taken[at], given) if several else None
            for more in self._spins(cta, given, before, lock):
                walk = self._walked(cta, given, {at: more})
                if several and self._state(cta, walk.taken[at], given) != then:
                    raise NotWaiting("what a CTA does depends on how often it has found a lock "
                                     "taken", walk.run.outcome.site)  # fmt: skip
                yield self._variant(cta, given, numbers, more, walk)

    def _variant(
        self, cta: int, given: Given, numbers: Mapping[int, Numbers], spins: Answers, walk: _Walk
    ) -> LockVariant:
        items = items_on(walk.run, self.locks)
        check_certain(walk.run, items)
        use = use_of(walk.run, items, self.locks)
        left = self._left(cta, walk.run, use)
        return LockVariant(cta, given, numbers, spins, walk.run, items, use, left)

    def repeated(self, cta: int, given: Given, times: int) -> Run:
        """The run of a CTA that finds each lock taken so often before it takes it."""
        first = self._walked(cta, given, {})
        failing = {}
        for at, (before, lock) in enumerate(first.taking):
            spins = self._spins(cta, given, before, lock)
            failing[at] = spins[0] * times if spins else ()
        return self._walked(cta, given, failing).run

    def _walked(self, cta: int, given: Given, failing: Mapping[int, Answers]) -> _Walk:
        """The run of a CTA that takes each lock; `failing`: what it finds before, by their number
        in the run."""
        walk = _Walk(self.runs.attempt(cta, (), given), ())
        trying = False
        while (question := question_of(walk.run)) is not None:
            if len(walk.answers) > QUESTIONS_MAX:
                raise NotWaiting(f"a CTA asks for more than {QUESTIONS_MAX} words",
                                 question.instruction)  # fmt: skip
            at = question.address
            held = held_by(walk.run, self.locks)
            if at in self.locks and at not in held and not trying:
                walk.taking.append((walk.answers, at))
                trying = True
                spins = failing.get(len(walk.taking) - 1, ())
                if spins:
                    self._answer(walk, cta, given, spins)
                    continue
            if at not in self.locks:
                self._answer(walk, cta, given, (None,))
            elif at in held:
                self._release(walk, cta, given, question, held[at])
            else:
                self._answer(walk, cta, given, (self.locks[at].free,))
                if not is_load(self.runs, question):
                    walk.taken.append(walk.answers)
                    trying = False
        if walk.run.outcome.ending is not Ending.FINISHED:
            self._find_guard(cta, walk.run)
        return walk

    def _answer(self, walk: _Walk, cta: int, given: Given, more: Answers) -> None:
        walk.answers = (*walk.answers, *more)
        walk.run = self.runs.attempt(cta, walk.answers, given)

    def _release(
        self, walk: _Walk, cta: int, given: Given, question: AskedWord, number: int | None
    ) -> None:
        """Answer the question for a lock that the CTA has."""
        before, asking = walk.answers, walk.run
        self._answer(walk, cta, given, (number,))
        if is_load(self.runs, question):
            return
        lock = self.locks[question.address]
        item = item_asked(walk.run, lock.address, lock.size, lock.free)
        if item is not None and number is not None and item.after(number) != lock.free:
            if self._state(cta, before, given) == self._state(cta, walk.answers, given):
                check_alone(asking, [lock.address])
                raise KeptError(cta, given, question.instruction)
            raise NotWaiting(
                "what a CTA writes to its lock does not release it", question.instruction
            )

    def _state(self, cta: int, answers: Answers, given: Given) -> ParkedState:
        key = cta, answers, given
        if key not in self._parked:
            self._parked[key] = self.states.of(
                self.runs.prepared(cta, answers, given), self.runs.written
            )
        return self._parked[key]

    def _spins(self, cta: int, given: Given, before: Answers, lock: int) -> list[Answers]:
        """What a CTA may find of a lock that it tries to take, for each step between its states."""
        key = cta, () if all(one is None for one in before) else given, before, lock
        if key not in self._spun:
            self._spun[key] = list(self._spinning(cta, given, before, lock))
        return self._spun[key]

    def _spinning(self, cta: int, given: Given, before: Answers, lock: int) -> Iterator[Answers]:
        """What a CTA may find of a lock that it tries to take, until its states repeat: answers
        that lead to each of them."""
        first = self._state(cta, before, given)
        seen, shown = {first}, set()
        work: list[Answers] = [()]
        free, taken = self.locks[lock].free, self.locks[lock].taken
        while work:
            spins = work.pop()
            state = self._state(cta, (*before, *spins), given)
            assert state.asked is not None and first.asked is not None
            asked = state.asked[1]
            loads = is_load(self.runs, AskedWord(lock, asked, state.asked[2]))
            for number in (*taken, free) if loads else taken:
                more, now, done = self._until_asked(cta, given, (*before, *spins, number))
                if now.asked is None or (now.asked[0], *now.asked[2:]) != (lock, *first.asked[2:]):
                    raise NotWaiting("a CTA that finds a lock taken does more than wait", asked)
                found = more[len(before) :]
                if now not in seen:
                    seen.add(now)
                    work.append(found)
                    if len(seen) > SPINS_MAX:
                        raise NotWaiting(
                            "a CTA that finds a lock taken does something else each time", asked
                        )
                if (state, now, done) not in shown:
                    shown.add((state, now, done))
                    yield found

    def _until_asked(
        self, cta: int, given: Given, answers: Answers
    ) -> tuple[Answers, ParkedState, tuple[Hashable, ...]]:
        """The state of a CTA when it asks for one of the locks again, and its events until then."""
        state = self._state(cta, answers, given)
        done = state.done
        while state.asked is not None and state.asked[0] not in self.locks:
            if len(answers) > QUESTIONS_MAX:
                raise NotWaiting(f"a CTA asks for more than {QUESTIONS_MAX} words", state.asked[1])
            answers = (*answers, None)
            state = self._state(cta, answers, given)
            done += state.done
        return answers, state, done


def _reach(
    variants: Sequence[LockVariant],
    depths: Mapping[int, int],
    reached: dict[int, dict[Numbers, int]],
) -> bool:
    """Note what runs leave in guards; whether that is news."""
    news = False
    for variant in variants:
        for lock, numbers in variant.left.items():
            depth = depths[lock] + 1
            if depth < reached[lock].get(numbers, depth + 1):
                reached[lock][numbers] = depth
                news = True
    return news


def _reads_word(event: ev.Event) -> TypeGuard[ev.AccessEvent]:
    """Whether an event reads one word of global memory."""
    if not isinstance(event, ev.AccessEvent) or event.footprint.space is not MemorySpace.GLOBAL:
        return False
    if event.mode is ev.Mode.WRITE or (event.mode is ev.Mode.ATOMIC and not event.returns):
        return False
    ranges = event.footprint.ranges()
    return len(ranges) == 1 and ranges[0][1] - ranges[0][0] in WORD_BYTES
