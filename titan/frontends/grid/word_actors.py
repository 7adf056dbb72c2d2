"""What each CTA of a launch does to the words that CTAs wait for, and which numbers let it go on.

A first schedule is found by running the CTAs in turns, each up to its next question, with the words
as they are then. It is a guess: what is used of it is the one number with which each wait passes.
With these a CTA is run again (`canonical`), which gives its items in order: what it reads of words
and writes to them. That this order is the same in every execution is checked: each number that a
word may have (`word_states.py`) either lets a wait pass, and the CTA then does just the same, or
the CTA asks again. A loop that asks again has nothing that changes from round to round but what it
reads (`check_loop`), so that it does so any number of times.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from titan.frontends.grid.asked_words import (
    Answers,
    AskedRuns,
    AskedWord,
    Item,
    NotWaiting,
    NoWaitError,
    Ranges,
    asks_only,
    check_data,
    items_of,
    question_of,
    writes_of,
)
from titan.frontends.grid.ticket_order import known_behind
from titan.frontends.grid.word_classes import NumberClasses
from titan.frontends.grid.word_loops import check_loop, check_same, innermost
from titan.isa.simt import events as ev
from titan.isa.simt.execution import SimtExecution
from titan.isa.simt.footprints import MemorySpace, merged
from titan.isa.simt.operations import DecodedCode, Op
from titan.isa.simt.outcome import Run
from titan.isa.simt.state import Fragment

TURNS_MAX = 4_000  # of the first schedule
ROUNDS = 4  # in which the words are found
_IDLE = (ev.RendezvousEvent, ev.FenceEvent)  # what a loop that waits may do
FAILED_ROUNDS = (0, 1, 2)  # how often each wait fails first in the runs that are judged


@dataclass(slots=True)
class WordActor:
    """A CTA with the answers that let every wait pass at once, and its items in order."""

    cta: int
    answers: Answers
    run: Run
    items: list[Item]


@dataclass(slots=True)
class _Turn:
    """A CTA in the first schedule. `asked`: its questions; `wait`: the first answer to the wait
    that it is in; `applied`: its events that have been."""

    cta: int
    run: Run
    answers: tuple[int | None, ...] = ()
    asked: list[AskedWord] = field(default_factory=list)
    wait: int = 0
    applied: int = 0


class StuckError(NotWaiting):
    """CTAs wait, and none goes on that could change what they wait for. `questions`: by CTA."""

    def __init__(self, questions: dict[int, AskedWord], turns: list[_Turn]) -> None:
        first = min(questions)
        super().__init__("CTAs wait for each other", questions[first].instruction)
        self.questions = questions
        self.turns = turns


class _Schedule:
    """The CTAs in turns. Raises NotWaiting where none can proceed."""

    def __init__(self, runs: AskedRuns) -> None:
        self.runs = runs
        self.numbers: dict[int, int | None] = {}
        self.sizes: dict[int, int] = {}
        self.written: Ranges = ()
        self._new: list[tuple[int, int]] = []  # ranges that are not in `written` yet
        self.turns = [_Turn(cta, runs.run(cta, ())) for cta in range(runs.made.launch.ctas)]

    def play(self) -> list[_Turn]:
        """All CTAs to their ends."""
        for turn in self.turns:
            self._run(turn, ())
        count = 0
        while True:
            moved, open_ = False, []
            for turn in self.turns:
                while self._asks(turn) is not None and self._answer(turn):
                    moved = True
                    count += 1
                    if count > TURNS_MAX:
                        raise NotWaiting("CTAs ask for words too often")
                if self._asks(turn) is not None:
                    open_.append(turn)
            if not open_:
                return self.turns
            if not moved:
                asked = {turn.cta: self._asks(turn) for turn in open_}
                raise StuckError({cta: one for cta, one in asked.items() if one}, self.turns)

    def _asks(self, turn: _Turn) -> AskedWord | None:
        return question_of(turn.run)

    def _run(self, turn: _Turn, answers: tuple[int | None, ...]) -> None:
        turn.answers, turn.run = answers, self.runs.run(turn.cta, answers)
        for event in turn.run.events[turn.applied :]:
            if isinstance(event, ev.AccessEvent):
                self._apply(turn, event)
        turn.applied = len(turn.run.events)

    def _apply(self, turn: _Turn, event: ev.AccessEvent) -> None:
        ranges = event.footprint.ranges()
        if event.footprint.space is not MemorySpace.GLOBAL or event.mode is ev.Mode.READ:
            return
        low, high = ranges[0]
        known = len(ranges) == 1 and event.value is not None
        old = self._number(low, high - low) if known and event.mode is ev.Mode.ATOMIC else None
        self._new += ranges
        for start, end in ranges:
            for at in [at for at, size in self.sizes.items() if start < at + size and at < end]:
                self.numbers[at] = None
        if not known:
            return
        word = {low: (high - low, 0)}
        small = replace(turn.run, events=(event,), launch=replace(turn.run.launch, answers=()))
        try:
            (item,) = items_of(small, word) if not event.returns else [_alone(turn.run, event)]
        except NotWaiting:
            return
        if old is not None or item.operation == "store":
            self.numbers[low] = item.after(old or 0)
            self.sizes[low] = high - low

    def _number(self, at: int, size: int) -> int | None:
        if at in self.numbers:
            return self.numbers[at] if self.sizes.get(at, size) == size else None
        self.written = merged([*self.written, *self._new])
        self._new.clear()
        if any(low < at + size and at < high for low, high in self.written):
            return None  # what is there now was not known, or is of another size
        return self.runs.number_at(at, size)

    def _answer(self, turn: _Turn) -> bool:
        """Answer the question of a CTA; whether it goes on."""
        question = self._asks(turn)
        assert question is not None
        size = _size(self.runs.made.code, question.instruction)
        self.sizes.setdefault(question.address, size)
        number = self._number(question.address, size)
        if not self._waits(turn, question):
            turn.wait = len(turn.asked)
        here = turn.asked[turn.wait :]
        if here and turn.answers[-1] == number and question in here:
            return False
        if here and turn.answers[-1] != number:
            # It begins to wait now, and reads this number first.
            del turn.asked[turn.wait + 1 :]
            turn.applied = len(self.runs.run(turn.cta, turn.answers[: turn.wait]).events)
            self._run(turn, (*turn.answers[: turn.wait], number))
            return True
        turn.asked.append(question)
        self._run(turn, (*turn.answers, number))
        return True

    def _waits(self, turn: _Turn, question: AskedWord) -> bool:
        """Whether a CTA has done nothing since its last question, which was for the same word."""
        if not turn.asked:
            return False
        last = turn.asked[-1]
        if (last.address, last.warp) != (question.address, question.warp):
            return False
        before = self.runs.run(turn.cta, turn.answers[:-1])
        read, *since = turn.run.events[len(before.events) :]
        loads = isinstance(read, ev.AccessEvent) and read.mode is ev.Mode.READ
        asks = loads or asks_only(self.runs.made.code, read.instruction)
        joint = self.runs.joint
        return asks and all(
            isinstance(event, _IDLE)
            or _within(event)
            or (read.instruction in joint and _same_read(event, read))
            for event in since
        )


def _within(event: ev.Event) -> bool:
    """Whether an event is an access to shared memory, by which threads hand on what one has read;
    whether a loop that waits may do so is decided of its code."""
    return isinstance(event, ev.AccessEvent) and event.footprint.space is MemorySpace.SHARED


def _same_read(event: ev.Event, read: ev.Event) -> bool:
    """Whether an event is what another warp reads that votes with the one that has read."""
    if not isinstance(event, ev.AccessEvent) or not isinstance(read, ev.AccessEvent):
        return False
    return (event.instruction, event.footprint) == (read.instruction, read.footprint)


def _alone(run: Run, event: ev.AccessEvent) -> Item:
    """The item of an atomic whose old value is used."""
    low, high = event.footprint.bounds
    silent = replace(event, returns=False)
    small = replace(run, events=(silent,), launch=replace(run.launch, answers=()))
    (item,) = items_of(small, {low: (high - low, 0)})
    return item


def _size(code: DecodedCode, instruction: int) -> int:
    step = code.steps[instruction]
    count = len(step.out) if step.op is Op.LOAD else int(step.flags[7])
    return int(step.flags[4]) // 8 * count


def actors_of(runs: AskedRuns) -> list[WordActor]:
    """The CTAs of a launch with their items. Raises NotWaiting."""
    for _ in range(ROUNDS):
        stuck: StuckError | None = None
        try:
            turns = _Schedule(runs).play()
        except StuckError as why:
            stuck, turns = why, why.turns
        done = [(turn.cta, turn.run) for turn in turns]
        written = [pair for _, run in done for _, pair in writes_of(run)]
        if not runs.know(_words(runs, turns), written):
            if stuck is not None:
                raise stuck
            break
    else:
        raise NotWaiting("what CTAs write depends on what they find in memory")
    if not runs.words:
        raise NoWaitError("no CTA asks for a word that another one writes")
    check_data(done, runs.words)
    found = []
    for turn in turns:
        answers: list[int | None] = []
        for question, number in zip(turn.asked, turn.answers, strict=True):
            answers.append(number if question.address in runs.words else None)
        run = runs.run(turn.cta, tuple(answers))
        if question_of(run) is not None:
            raise NotWaiting("a CTA does not do the same again")
        actor = WordActor(turn.cta, tuple(answers), run, items_of(run, runs.words, runs.joint))
        _check_order(actor)
        found.append(actor)
    return found


def _words(runs: AskedRuns, turns: Sequence[_Turn]) -> dict[int, tuple[int, int]]:
    """The words: asked for by a CTA, written by another, with known numbers."""
    asked: dict[int, set[int]] = {}
    sizes: dict[int, set[int]] = {}
    for turn in turns:
        for question in turn.asked:
            asked.setdefault(question.address, set()).add(turn.cta)
            size = _size(runs.made.code, question.instruction)
            sizes.setdefault(question.address, set()).add(size)
    writers: dict[int, set[int]] = {}
    known: dict[int, bool] = {}
    for turn in turns:
        for event, (low, high) in writes_of(turn.run):
            for at in asked:
                if low < at + max(sizes[at]) and at < high:
                    writers.setdefault(at, set()).add(turn.cta)
                    value = event.value if isinstance(event, ev.AccessEvent) else None
                    known[at] = known.get(at, True) and value is not None
    found = {}
    for at, ctas in asked.items():
        others = writers.get(at, set())
        if not others or (len(others) == 1 and others == ctas) or not known[at]:
            continue
        if len(sizes[at]) != 1:
            raise NotWaiting("a word is read in several sizes")
        (size,) = sizes[at]
        start = runs.number_at(at, size)
        if start is None:
            raise NotWaiting(
                f"the number at global+{at:#x}, which a CTA asks for and another one writes, is "
                "not known at the start: the launch may give it"
            )
        found[at] = size, start
    return found


def _check_order(actor: WordActor) -> None:
    """The items are in an order that the CTA keeps in every execution."""
    items = actor.items
    if len({(item.warp, item.lanes) for item in items}) < 2:
        return
    masks = [
        [known_behind(actor.run.events, {place: lanes}) for place, lanes in item.reads]
        for item in items
    ]
    for at, item in enumerate(items):
        for before in range(at):
            if not (item.changes or items[before].changes):
                continue
            own = (item.warp, item.lanes) == (items[before].warp, items[before].lanes)
            own = own and not item.members
            behind = all(
                mask.get(place, 0) & lanes == lanes
                for mask in masks[before]
                for place, lanes in item.reads
            )
            if not own and not behind:
                raise NotWaiting("a CTA touches words in no certain order", item.instruction)


# ------------------------------------------------------------------------------- predicates


@dataclass(slots=True)
class WordWaits:
    """Which numbers let waits pass; of those that the code does not distinguish one is tried
    (`word_classes.py`). `retried`: instructions that ask again."""

    runs: AskedRuns
    actors: list[WordActor]
    retried: set[int] = field(default_factory=set)
    failing: dict[tuple[int, int], int] = field(default_factory=dict)
    _known: dict[tuple[int, int, int], bool] = field(default_factory=dict)
    _classes: NumberClasses = field(init=False)
    _first: dict[tuple[int, int], dict[Hashable, int]] = field(default_factory=dict)
    _tried: dict[tuple[int, int, int], int] = field(default_factory=dict)  # for each number

    def __post_init__(self) -> None:
        self._classes = NumberClasses(self.runs.made)

    def passes(self, cta: int, at: int, number: int) -> bool:
        """Whether a CTA goes on behind item `at`, a wait, with this number of its word."""
        number = self._first_alike(cta, at, number)
        key = cta, at, number
        if key not in self._known:
            self._known[key] = self.passes_behind(
                self.actors[cta], self.actors[cta].answers, at, number
            )
        return self._known[key]

    def _first_alike(self, cta: int, at: int, number: int) -> int:
        """The number that is tried for one that an item may find: that of the first schedule, if
        they are alike."""
        found = self._tried.get((cta, at, number))
        if found is None:
            item = self.actors[cta].items[at]
            firsts = self._first.setdefault((cta, at), {})
            given = self.actors[cta].answers[item.asks]
            if given is not None:
                firsts.setdefault(self._classes.of(cta, item, given), given)
            found = firsts.setdefault(self._classes.of(cta, item, number), number)
            self._tried[cta, at, number] = found
        return found

    def passes_behind(self, actor: WordActor, answers: Answers, at: int, number: int) -> bool:
        """The same, where the CTA has had these answers before."""
        item = actor.items[at]
        right = self.to_question(actor.cta, answers[: item.asks + 1])
        tried = self.to_question(actor.cta, (*answers[: item.asks], number))
        if alike(right, tried):
            self._check_rest(actor, item, (*answers[: item.asks], number), actor.run)
            return True
        again = question_of(tried)
        if again is None or (again.address, again.warp) != (item.address, item.warp):
            raise NotWaiting("the number of a word decides more than waiting", item.instruction)
        self._check_silent(actor, tried, at)
        passed = answers[item.asks]
        then = self.to_question(actor.cta, (*(tried.launch.answers or ()), passed))
        if question_of(then) != question_of(right):
            raise NotWaiting("the number of a word decides more than waiting", item.instruction)
        self.retried.add(again.instruction)
        first = self.failing.setdefault((actor.cta, at), number)
        self._check_again(actor, item, (*answers[: item.asks], first, number), passed, again, right)
        before = *answers[: item.asks], first, *answers[item.asks :]
        one = self.to_question(actor.cta, before)
        self._check_rest(actor, item, (*answers[: item.asks], number, passed), one)
        check_same(self.runs.made.code, actor.run, one, (again.instruction,))
        return False

    def _check_again(
        self,
        actor: WordActor,
        item: Item,
        answers: Answers,
        passed: int | None,
        again: AskedWord,
        right: Run,
    ) -> None:
        """A wait that has failed fails with another number in the same way; raises NotWaiting."""
        twice = self.to_question(actor.cta, answers)
        ended = self.to_question(actor.cta, (*answers, passed))
        if question_of(twice) != again or question_of(ended) != question_of(right):
            raise NotWaiting("the number of a word decides more than waiting", item.instruction)

    def _check_rest(self, actor: WordActor, item: Item, answers: Answers, expected: Run) -> None:
        """A CTA does the same to its end whatever it has read; raises NotWaiting."""
        rest = actor.answers[item.asks + 1 :]
        run = self.to_question(actor.cta, (*answers, *rest))
        if not alike(expected, run) or question_of(run) is not None:
            raise NotWaiting("the number of a word decides more than waiting", item.instruction)

    def _check_silent(self, actor: WordActor, run: Run, at: int) -> None:
        """A wait that asks again has written no word."""
        made = items_of(run, self.runs.words, self.runs.joint)
        before = [item for item in actor.items[:at] if item.changes]
        if len([item for item in made if item.changes]) != len(before):
            raise NotWaiting("a CTA writes a word while it waits", actor.items[at].instruction)

    def check_found(self, cta: int, at: int, number: int) -> None:
        """What an atomic finds decides nothing; raises NotWaiting."""
        actor, number = self.actors[cta], self._first_alike(cta, at, number)
        key = cta, at, number
        if key in self._known:
            return
        item = actor.items[at]
        right = self.to_question(cta, actor.answers[: item.asks + 1])
        tried = self.to_question(cta, (*actor.answers[: item.asks], number))
        if not alike(right, tried):
            raise NotWaiting("what an atomic finds decides", item.instruction)
        self._check_rest(actor, item, (*actor.answers[: item.asks], number), actor.run)
        self._known[key] = True

    def found_by(self, cta: int, at: int) -> list[int]:
        """The numbers that were tried of an item."""
        return [number for one, place, number in self._known if (one, place) == (cta, at)]

    def to_question(self, cta: int, answers: Answers) -> Run:
        """A run up to its next question for one of the words."""
        run = self.runs.run(cta, answers)
        asked = question_of(run)
        while asked is not None and asked.address not in self.runs.words:
            answers = (*answers, None)
            run = self.runs.run(cta, answers)
            asked = question_of(run)
        return run

    def variant(self, actor: WordActor, fails: int) -> tuple[Run, set[int]]:
        """The run of a CTA in which each wait fails so often before it passes, if it can; and the
        questions that failed."""
        answers: list[int | None] = []
        failed: set[int] = set()
        waits = {item.asks: at for at, item in enumerate(actor.items) if item.polls}
        for number, answer in enumerate(actor.answers):
            stale = self.failing.get((actor.cta, waits.get(number, -1)))
            if stale is not None:
                failed |= set(range(len(answers), len(answers) + fails))
                answers += [stale] * fails
            answers.append(answer)
        run = self.runs.run(actor.cta, tuple(answers))
        asked = question_of(run)
        if asked is not None:
            raise NotWaiting("a wait that has failed does not pass", asked.instruction)
        if failed:
            check_same(self.runs.made.code, actor.run, run, self.retried)
        return run, failed


def alike(one: Run, other: Run) -> bool:
    """Whether two runs do the same up to the same question, or to their ends. Numbers that a thread
    stores to shared memory may differ: where they decide, what follows does.
    """
    if question_of(one) != question_of(other) or len(one.events) != len(other.events):
        return False
    pairs = zip(one.events, other.events, strict=True)
    return all(event is its or event == its or _without_number(event, its) for event, its in pairs)


def _without_number(event: ev.Event, its: ev.Event) -> bool:
    """Whether accesses to shared memory differ in no more than the numbers that they store."""
    if not (_within(event) and isinstance(event, ev.AccessEvent)):
        return False
    return isinstance(its, ev.AccessEvent) and replace(event, value=None) == replace(
        its, value=None
    )


# ------------------------------------------------------------------------------------- loops


class _Watched(SimtExecution):
    """A run that notes the instructions of a warp behind the last answer."""

    warp = 0
    passed: set[int]

    def step(self, fragment: Fragment) -> bool:
        """Execute one instruction."""
        answers = self.launch.answers or ()
        if self.asked == len(answers) and self.warp in (fragment.warp.index, -1):
            self.passed.add(fragment.pc)
        return super().step(fragment)


def check_waiting(runs: AskedRuns, turn_run: Run, question: AskedWord) -> None:
    """A run that asks again has not left its loop since the last answer; raises NotWaiting."""
    check_loop(runs.made.code, question.instruction)
    body = innermost(runs.made.code, question.instruction)
    made = turn_run.prepared
    assert made is not None
    machine = _Watched.again(made)
    machine.warp, machine.passed = question.warp, set()
    machine.run()
    if not machine.passed <= body:
        raise NotWaiting("a CTA asks for a word again and again", question.instruction)
