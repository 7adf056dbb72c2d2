"""Runs of one CTA with given answers to what it asks of words in global memory.

A CTA that waits for another one polls a word: a strong load of it, in a loop. So each CTA is run
alone, and every strong load of one word, and every atomic on one whose old value is used, is a
question (`Launch.answers`). What the CTA does up to its next question is a function of the answers
before it; nothing else that other CTAs write is known to it.

The words are those that one CTA asks for and another writes, all writes with known numbers, and
whose number at the start the launch gives. Everything else that CTAs read of each other is data,
whose bytes are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from titan.foundation.errors import TitanError
from titan.frontends.grid.tickets import known_memory, without
from titan.isa.simt import events as ev
from titan.isa.simt.footprints import Footprint, MemorySpace, merged
from titan.isa.simt.launch import QUESTION, WORD_BYTES, Allocation
from titan.isa.simt.layout import GRID_WORKSPACE, GRID_WORKSPACE_BYTES
from titan.isa.simt.native_events import RecordingBefore
from titan.isa.simt.operations import ATOMICS, DecodedCode, Op, PresetKind
from titan.isa.simt.outcome import Ending, PreparedLaunch, Run
from titan.isa.simt.run import run_prepared
from titan.isa.simt.written import global_accesses

STEPS_MAX = 2_000_000  # warp instructions of a run
RUNS_MAX = 9_000  # of all CTAs together
INSTRUCTIONS_MAX = 300_000_000  # of all these runs, of warps
KEPT_MAX = 20_000_000  # of the runs that are kept, so as not to be made again
CTAS_MAX = 256  # of a grid
Answers = tuple[int | None, ...]
Given = tuple[tuple[int, bytes], ...]  # bytes of memory at the start, by address
Ranges = tuple[tuple[int, int], ...]


class NotWaiting(TitanError):
    """Words of global memory do not decide what the CTAs do; `str()` is why."""

    def __init__(self, text: str, instruction: int = -1) -> None:
        super().__init__(text)
        self.instruction = instruction


class JointError(NotWaiting):
    """Warps vote together on what they ask for by an instruction that is not known to be so."""

    def __init__(self, instruction: int) -> None:
        super().__init__("several warps of a CTA ask for words together", instruction)


class NoWaitError(NotWaiting):
    """No CTA waits for a word, so that other engines may decide the launch."""


@dataclass(frozen=True, slots=True)
class AskedWord:
    """What a run asks for: the word at an address, by an instruction of a warp."""

    address: int
    instruction: int
    warp: int


@dataclass(frozen=True, slots=True)
class Item:
    """What a CTA does to a word: it reads it (`asks`: which question), writes it, or both.

    `operation`: what is done to the number of the word, an atomic's name or `store`; empty for a
    load. `operands`: its numbers. `place`: the number of its event in the run. `parts`: in how many
    equal steps it adds, one for each lane. `members`: the places and lanes of what warps that vote
    together read in one round; such an item is of no warp (`warp` is -1).
    """

    address: int
    size: int
    place: int
    instruction: int
    warp: int
    lanes: int
    asks: int = -1
    operation: str = ""
    operands: tuple[int, ...] = ()
    parts: int = 1
    members: tuple[tuple[int, int], ...] = ()

    @property
    def reads(self) -> tuple[tuple[int, int], ...]:
        """Its events with their lanes: one, or those of all warps that vote together."""
        return self.members or ((self.place, self.lanes),)

    @property
    def writes(self) -> bool:
        """Whether it may change the word."""
        return self.operation != ""

    @property
    def waits(self) -> bool:
        """Whether it is a load."""
        return self.operation == ""

    @property
    def changes(self) -> bool:
        """Whether it may change the number of the word: a write that is no sum with 0, say."""
        if not self.operands:
            return False
        first, mask = self.operands[0], (1 << 8 * self.size) - 1
        if self.operation == "cas":
            return first != self.operands[1]
        neutral = {"add": 0, "or": 0, "xor": 0, "and": mask}
        return neutral.get(self.operation, -1) != first

    @property
    def polls(self) -> bool:
        """Whether it asks for the number and leaves it: a load, or an atomic used as one."""
        return self.asks >= 0 and not self.changes

    def between(self, number: int) -> list[int]:
        """The numbers that the word has while lanes add one by one."""
        mask = (1 << 8 * self.size) - 1
        step = self.operands[0] // self.parts if self.parts > 1 else 0
        return [number + step * part & mask for part in range(1, self.parts)]

    def after(self, number: int) -> int:
        """The number of the word afterwards."""
        mask = (1 << 8 * self.size) - 1
        first = self.operands[0] if self.operands else 0
        if self.operation in ("store", "exch"):
            return first & mask
        if self.operation == "cas":
            return self.operands[1] & mask if number == first & mask else number
        if self.operation == "inc":
            return 0 if number >= first else number + 1
        if self.operation == "dec":
            return first if number == 0 or number > first else number - 1
        made = {"add": number + first, "and": number & first, "or": number | first,
                "xor": number ^ first}  # fmt: skip
        return made[self.operation] & mask


OPERATIONS = ("store", "exch", "cas", "inc", "dec", "add", "and", "or", "xor")


def _never(_: int) -> bool:
    return False


@dataclass(slots=True)
class AskedRuns:
    """Runs of the CTAs of a launch. `words`: size and number at the start, by address; `written`:
    bytes of global memory that any CTA writes. `bare`: nothing is known of global memory but
    variables of the module. `joint`: instructions by which warps ask that vote together, whose
    questions of one round have one answer (`joint_votes.py`); `votes`: whether an instruction may
    be one."""

    made: PreparedLaunch
    words: dict[int, tuple[int, int]] = field(default_factory=dict)
    written: Ranges = ()
    count: int = 0
    instructions: int = 0
    bare: bool = False
    joint: set[int] = field(default_factory=set)
    votes: Callable[[int], bool] = field(default=_never)
    _start: dict[int, bytes] = field(default_factory=dict)
    _variables: dict[int, bytes] = field(default_factory=dict)
    _runs: dict[tuple[int, Answers, Given], Run] = field(default_factory=dict)
    _kept: int = 0
    _recorded: dict[int, RecordingBefore] = field(default_factory=dict)
    _of_warps: dict[tuple[int, Answers, Given], Answers] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._start = known_memory(self.made)
        launch = replace(self.made.launch, memory={})
        self._variables = known_memory(replace(self.made, launch=launch))

    def know(self, words: dict[int, tuple[int, int]], written: Iterable[tuple[int, int]]) -> bool:
        """Take these as the words and the bytes that are written; whether that is news."""
        ranges = merged([*written, *((at, at + size) for at, (size, _) in words.items())])
        if (words, ranges) == (self.words, self.written):
            return False
        self.words, self.written = words, ranges
        self.forget()
        return True

    def forget(self) -> None:
        """Make all runs again."""
        self._runs.clear()
        self._of_warps.clear()

    def number_at(self, address: int, size: int) -> int | None:
        """The number that the launch gives a word."""
        for at, data in self._start.items():
            if at <= address and address + size <= at + len(data):
                return int.from_bytes(data[address - at : address - at + size], "little")
        if GRID_WORKSPACE <= address < GRID_WORKSPACE + GRID_WORKSPACE_BYTES:
            return 0  # the barrier of a cooperative launch
        return None

    def run(self, cta: int, answers: Answers, given: Given = ()) -> Run:
        """The run of a CTA up to the question behind these answers, or to its end. `given`: what
        it finds in bytes that CTAs write."""
        run = self.attempt(cta, answers, given)
        if run.outcome.ending is not Ending.FINISHED and question_of(run) is None:
            raise NotWaiting("the run of a CTA does not come to its end", run.outcome.site)
        return run

    def attempt(self, cta: int, answers: Answers, given: Given = ()) -> Run:
        """The same, also where it does not come to its end."""
        asked = self._answers_of_warps(cta, answers, given)
        run = self._made(cta, asked, given)
        if run.outcome.site in self.joint and _is_question(run):
            run = replace(run, outcome=replace(run.outcome, warp=-1))
        if len(asked) == len(answers):
            return run
        return replace(run, launch=replace(run.launch, answers=answers))

    def _answers_of_warps(self, cta: int, answers: Answers, given: Given) -> Answers:
        """The answers with those to other warps that vote together. Raises JointError."""
        if not answers:
            return ()
        key = cta, answers, given
        if key not in self._of_warps:
            found = *self._answers_of_warps(cta, answers[:-1], given), answers[-1]
            while self._asks_again(self._made(cta, found, given)):
                found = *found, answers[-1]
            self._of_warps[key] = found
        return self._of_warps[key]

    def _asks_again(self, run: Run) -> bool:
        """Whether another warp asks for what one has asked for in this round."""
        question = question_of(run)
        if question is None or not _follows(run, question):
            return False
        if question.instruction not in self.joint:
            if not self.votes(question.instruction):
                return False
            raise JointError(question.instruction)
        return True

    def _made(self, cta: int, answers: Answers, given: Given) -> Run:
        found = self._runs.get((cta, answers, given))
        if found is not None:
            return found
        self.count += 1
        if self.count > RUNS_MAX:
            raise NotWaiting(f"CTAs are run up to {RUNS_MAX:,} times")
        before = self._recorded.setdefault(cta, RecordingBefore())
        run, _ = run_prepared(self.prepared(cta, answers, given), before=before)
        self.instructions += run.instructions
        if self.instructions > INSTRUCTIONS_MAX:
            raise NotWaiting(f"CTAs are run for up to {INSTRUCTIONS_MAX:,} instructions of warps")
        self._kept += run.instructions
        if self._kept > KEPT_MAX:
            self._runs.clear()
            self._kept = run.instructions
        self._runs[cta, answers, given] = run
        return run

    def left_by(self, run: Run, ranges: Ranges) -> list[bytes | None]:
        """What a run leaves in ranges of global memory, if known."""
        assert run.prepared is not None
        return run_prepared(run.prepared, ranges)[1]

    def prepared(self, cta: int, answers: Answers, given: Given = ()) -> PreparedLaunch:
        """The launch of one CTA with these answers."""
        layout = replace(self.made.layout, module_globals=())
        start = self._variables if self.bare else self._start
        launch = self.made.launch
        allocations = launch.allocations
        if allocations:
            allocations += tuple(
                Allocation(at, size) for at, size, _ in self.made.layout.module_globals
            )
        launch = replace(
            launch,
            memory={**without(start, self.written), **dict(given)},
            allocations=allocations,
            tickets=tuple(self.words),
            in_turn=False,
            answers=answers,
        )
        options = replace(self.made.options, ctas=(cta,), steps_max=STEPS_MAX)
        return replace(self.made, layout=layout, launch=launch, options=options)


def asks_only(code: DecodedCode, instruction: int) -> bool:
    """Whether an instruction is an atomic that leaves every number as it is, so that it asks for
    it as a load does: a sum with 0, or one number in place of itself."""
    step = code.steps[instruction]
    if step.op is not Op.ATOMIC or step.flags[7] != 1:
        return False
    constants = {one.register: one.value for one in code.presets if one.kind is PresetKind.CONSTANT}
    operation, (first, *others) = ATOMICS[step.flags[6]], step.args[1:]
    if operation == "cas":
        return [first] == others
    neutral = {"add": 0, "or": 0, "xor": 0, "and": (1 << step.bits) - 1}
    return first in constants and neutral.get(operation) == constants[first]


def _is_question(run: Run) -> bool:
    return run.outcome.ending is Ending.REFUSED and run.outcome.reason == QUESTION


def question_of(run: Run) -> AskedWord | None:
    """What a run asks for that has no answer."""
    outcome = run.outcome
    if not _is_question(run):
        return None
    return AskedWord(outcome.map_offset, outcome.site, outcome.warp)


Rounds = dict[int, tuple[int, int]]  # the last barrier of the CTA that each warp has passed


def _asking(run: Run) -> tuple[list[tuple[ev.AccessEvent, object]], Rounds]:
    """What was asked for, in order, with what is alike for warps that ask in one round; and the
    barriers that the warps have passed at the end."""
    passed: Rounds = {}
    found: list[tuple[ev.AccessEvent, object]] = []
    for event in run.events:
        if isinstance(event, ev.RendezvousEvent):
            if event.side is ev.Side.PASS and event.meeting is not ev.Meeting.WARP:
                passed[event.warp] = event.number, event.generation
        elif isinstance(event, ev.AccessEvent) and _asks(event):
            at = event.instruction, event.footprint.bounds[0], passed.get(event.warp)
            found.append((event, at))
    return found, passed


def _follows(run: Run, question: AskedWord) -> bool:
    """Whether a warp asks for what another one has asked for in the same round."""
    asked, passed = _asking(run)
    round_ = question.instruction, question.address, passed.get(question.warp)
    warps = set()
    for event, its in reversed(asked):
        if its != round_:
            break
        warps.add(event.warp)
    return bool(warps) and question.warp not in warps


def asked_before(run: Run, place: int) -> int:
    """How many questions a run has been answered before one of its events, by each warp."""
    events = run.events[:place]
    return sum(isinstance(event, ev.AccessEvent) and _asks(event) for event in events)


def asked_in(run: Run, joint: Container[int] = ()) -> list[list[ev.AccessEvent]]:
    """The accesses that were answered, in order, those with one answer together. Raises NotWaiting
    where they are not known."""
    found: list[list[ev.AccessEvent]] = []
    before: object = None
    for event, round_ in _asking(run)[0]:
        again = event.instruction in joint and round_ == before
        if again and event.warp not in [one.warp for one in found[-1]]:
            found[-1].append(event)
        else:
            found.append([event])
        before = round_
    if len(found) != len(run.launch.answers or ()):
        raise NotWaiting("whether a word is read depends on data", found[0][0].instruction)
    return found


def _asks(event: ev.AccessEvent) -> bool:
    if event.footprint.space is not MemorySpace.GLOBAL:
        return False
    if event.semantics is ev.AccessSemantics.WEAK or event.mode is ev.Mode.WRITE:
        return False
    if event.mode is ev.Mode.ATOMIC and not event.returns:
        return False
    ranges = event.footprint.ranges()
    return len(ranges) == 1 and ranges[0][1] - ranges[0][0] in WORD_BYTES


def items_of(run: Run, words: dict[int, tuple[int, int]], joint: Container[int] = ()) -> list[Item]:
    """What a run does to the words, in order. Raises NotWaiting for what is not followed. `joint`:
    as of the runs."""
    groups = asked_in(run, joint)
    asked = {group[0].sequence: number for number, group in enumerate(groups)}
    others = {event.sequence for group in groups for event in group[1:]}
    found = []
    for event, footprint, mode in global_accesses(run, set()):
        first, end = footprint.bounds
        touched = [
            at
            for at, (size, _) in words.items()
            if first < at + size
            and at < end
            and any(low < at + size and at < high for low, high in footprint.ranges())
        ]
        if not touched or event.sequence in others:
            continue  # the first one of its round counts for all
        at = touched[0]
        size = words[at][0]
        single = isinstance(event, ev.AccessEvent) and footprint.ranges() == ((at, at + size),)
        if not single or event.instruction in run.unknown_addresses():
            raise NotWaiting("a word is touched with others", event.instruction)
        assert isinstance(event, ev.AccessEvent)
        question = asked.get(event.sequence, -1)
        place = at, size, event.sequence, event.instruction, event.warp, event.lanes, question
        if mode is ev.Mode.READ:
            if question < 0:
                raise NotWaiting("a word is read by a plain load", event.instruction)
            found.append(_read(place, groups[question], joint))
            continue
        operation, operands = _operation(run, event, size)
        if event.lanes & (event.lanes - 1) and (operation != "add" or question >= 0):
            raise NotWaiting("several lanes write a word at once", event.instruction)
        parts = event.lanes.bit_count()
        if operation == "add":
            operands = (operands[0] * parts,)
        found.append(Item(*place, operation, operands, parts))
    return found


def _read(
    place: tuple[int, int, int, int, int, int, int], group: Sequence[ev.AccessEvent],
    joint: Container[int],
) -> Item:  # fmt: skip
    if group[0].instruction not in joint:
        return Item(*place)
    members = tuple((event.sequence, event.lanes) for event in group)
    return replace(Item(*place), warp=-1, members=members)


def _operation(run: Run, event: ev.AccessEvent, size: int) -> tuple[str, tuple[int, ...]]:
    if event.value is None:
        raise NotWaiting("a number that is not known is written to a word", event.instruction)
    numbers = tuple(
        int.from_bytes(event.value[at : at + size], "little")
        for at in range(0, len(event.value), size)
    )
    if event.mode is ev.Mode.WRITE:
        return "store", numbers
    assert run.prepared is not None
    step = run.prepared.code.steps[event.instruction]
    name = ATOMICS[step.flags[6]] if step.op is Op.ATOMIC else ""
    if name not in OPERATIONS or step.bits != 8 * size:
        raise NotWaiting("what an atomic makes of a word is not followed", event.instruction)
    return name, numbers


def writes_of(run: Run) -> list[tuple[ev.Event, tuple[int, int]]]:
    """The ranges of global memory that a run writes."""
    return [
        (event, pair)
        for event, footprint, mode in global_accesses(run, set())
        if mode is not ev.Mode.READ
        for pair in footprint.ranges()
    ]


def check_data(runs: Sequence[tuple[int, Run]], words: Iterable[int]) -> None:
    """No known bytes are read that another CTA may have replaced: nothing is known at the start of
    bytes that CTAs write, so that they are known from the CTA's own stores. Raises NotWaiting."""
    others: dict[int, list[tuple[int, int]]] = {}
    for cta, run in runs:
        others.setdefault(cta, []).extend(pair for _, pair in writes_of(run))
    merged_of = {cta: merged(pairs) for cta, pairs in others.items()}
    replaced = {
        cta: _common(pairs, merged([*chain(*(merged_of[one] for one in merged_of if one != cta))]))
        for cta, pairs in merged_of.items()
    }
    own = set(words)
    for cta, run in runs:
        for instruction, footprint in known_reads(run) if replaced[cta] else ():
            if footprint.bounds[0] in own:
                continue
            if _common(footprint.ranges(), replaced[cta]):
                raise NotWaiting("bytes that another CTA may have replaced decide", instruction)


def _common(ones: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> Ranges:
    """The bytes that are in ranges of both, which are in order."""
    found, at = [], 0
    for low, high in ones:
        while at < len(others) and others[at][1] <= low:
            at += 1
        for start, end in islice(others, at, None):
            if start >= high:
                break
            found.append((max(low, start), min(high, end)))
    return tuple(found)


def known_reads(run: Run) -> Iterator[tuple[int, Footprint]]:
    """The reads of global memory of a run that gave known bytes, to registers or to shared memory,
    by instruction."""
    for event in run.events:
        if not isinstance(event, ev.AccessEvent):
            continue
        reads = event.known or (event.mode is ev.Mode.ATOMIC and event.returns)
        if reads and event.footprint.space is MemorySpace.GLOBAL:
            yield event.instruction, event.footprint
    for item in run.confluence.steering:
        if isinstance(run.events[item.sequence], ev.AsynchronousEvent):
            yield item.instruction, item.footprint
