"""Locks in words of global memory: which words are locks, and what a CTA does to them.

A lock is a word that begins with a number (free). An *attempt* is an atomic by one lane whose old
value is used and that makes another number of it (taken): compare-and-swap, or an exchange. An
attempt that finds the lock taken leaves it taken, and the CTA asks again. A *release* is a strong
write which makes the lock free. Each CTA attempts and releases in turn, by one lane or by lanes
that are behind each other, and ends with all locks released. So a lock is held by one CTA at a
time, and no other one makes it free: this follows from what all CTAs do, and is checked of each.

A word is found to be a lock by what a CTA does where it is taken: it asks again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from titan.frontends.grid.asked_words import (
    Answers,
    AskedRuns,
    AskedWord,
    Item,
    NotWaiting,
    items_of,
    question_of,
)
from titan.frontends.grid.ticket_order import known_behind
from titan.frontends.grid.tickets import perhaps
from titan.frontends.ptx.places import PlacedCode
from titan.isa.simt import events as ev
from titan.isa.simt.operations import Op
from titan.isa.simt.outcome import Run

QUESTIONS_MAX = 200  # of a run
NUMBERS_MAX = 64  # that a lock has while it is taken
_TAKING = frozenset({"cas", "exch", "or"})


@dataclass(frozen=True, slots=True)
class LockWord:
    """A lock: its number is `free` at the start, and one of `taken` while a CTA has it. `exact`: it
    keeps the number that the CTA has given it, whatever others attempt."""

    address: int
    size: int
    free: int
    taken: tuple[int, ...] = ()
    exact: bool = True


@dataclass(frozen=True, slots=True)
class LockSection:
    """What a CTA does while it has a lock: between two of its items, by number."""

    lock: int
    taken: int
    released: int


def may_lock(module: PlacedCode) -> bool:
    """Whether code has an atomic by which locks are taken."""
    return any(
        item.opcode == "atom" and not _TAKING.isdisjoint(item.modifiers)
        for item in module.instructions
    )


def is_load(runs: AskedRuns, question: AskedWord) -> bool:
    """Whether a question is for what a load finds."""
    return runs.made.code.steps[question.instruction].op is Op.LOAD


def item_asked(run: Run, address: int, size: int, free: int) -> Item | None:
    """The last item of a run that asks for a word, if it is by one lane and with known numbers."""
    try:
        items = items_of(run, {address: (size, free)})
    except NotWaiting:
        return None
    asked = [item for item in items if item.asks >= 0]
    return asked[-1] if asked else None


# ------------------------------------------------------------------------------ finding locks


def locks_of(runs: AskedRuns, cta: int, found: dict[int, LockWord]) -> set[int]:
    """The locks that a CTA takes where it runs alone; those that are not in `found` are added."""
    takes: set[int] = set()
    answers: Answers = ()
    run = runs.attempt(cta, ())
    while len(answers) < QUESTIONS_MAX:
        question = question_of(run)
        if question is None:
            break
        address = question.address
        lock = found.get(address) or _new_lock(runs, cta, answers, question)
        if lock is None:
            answers = (*answers, None)
        else:
            found[address] = lock
            takes.add(address)
            try:
                held = held_by(run, found)
            except NotWaiting:
                break  # the runs that are followed will say so
            answers = (*answers, held.get(address, lock.free))
        run = runs.attempt(cta, answers)
    return takes


def _new_lock(
    runs: AskedRuns, cta: int, answers: Answers, question: AskedWord
) -> LockWord | None:  # fmt: skip
    """The lock that a CTA attempts to take: where it finds it taken, it asks again, and again."""
    step = runs.made.code.steps[question.instruction]
    if step.op is not Op.ATOMIC:
        return None
    address, size = question.address, step.bits // 8
    free = runs.number_at(address, size)
    if free is None:
        return None
    item = item_asked(runs.attempt(cta, (*answers, free)), address, size, free)
    if item is None or item.after(free) == free:
        return None
    taken = item.after(free)
    for count in (1, 2):
        again = question_of(runs.attempt(cta, (*answers, *[taken] * count)))
        if again is None or (again.address, again.warp) != (address, question.warp):
            return None
    return LockWord(address, size, free)


# --------------------------------------------------------------------------- sections of a run


@dataclass(frozen=True, slots=True)
class LockUse:
    """What a run does to locks. `kept`: items that take a lock which it does not release;
    `attempts`: the items that try to take one."""

    sections: tuple[LockSection, ...]
    kept: tuple[int, ...]
    attempts: tuple[Item, ...]


def items_on(run: Run, locks: Mapping[int, LockWord]) -> list[Item]:
    """What a run does to locks, in order. Raises NotWaiting for what is not followed."""
    return items_of(run, {at: (lock.size, lock.free) for at, lock in locks.items()})


def check_certain(run: Run, items: Sequence[Item]) -> None:
    """What is done to locks does not depend on data; raises NotWaiting."""
    assert run.prepared is not None
    touching = {item.instruction for item in items}
    doubtful = [event for event in run.events if isinstance(event, ev.Assumption | ev.Skipped)]
    for at in sorted(touching):
        if any(perhaps(run.prepared.code, event, at) for event in doubtful):
            raise NotWaiting("data decide whether a lock is taken or released", at)


def held_by(run: Run, locks: Mapping[int, LockWord]) -> dict[int, int | None]:
    """The locks that a CTA has at the end of a run, with their numbers, where they are known."""
    items = items_on(run, locks)
    kept = [items[at] for at in use_of(run, items, locks).kept]
    return {
        item.address: item.after(locks[item.address].free) if locks[item.address].exact else None
        for item in kept
    }


def use_of(run: Run, items: Sequence[Item], locks: Mapping[int, LockWord]) -> LockUse:
    """What a run does to locks. Raises NotWaiting where a lock is used in another way."""
    answers = run.launch.answers or ()
    held: dict[int, int] = {}
    sections, attempts = [], []
    last: Item | None = None
    for number, item in enumerate(items):
        lock = locks[item.address]
        if item.waits:
            continue
        if last is not None and not _in_order(run, last, item):
            raise NotWaiting("several lanes of a CTA take or release locks", item.instruction)
        last = item
        if item.address not in held:
            if item.asks < 0:
                raise NotWaiting("a CTA writes a lock that it has not taken", item.instruction)
            attempts.append(item)
            if answers[item.asks] == lock.free:
                held[item.address] = number
            continue
        first = items[held[item.address]]
        numbers = [first.after(lock.free)] if lock.exact else lock.taken
        if any(item.after(one) != lock.free for one in numbers):
            raise NotWaiting("what a CTA writes to its lock does not release it", item.instruction)
        sections.append(LockSection(item.address, held.pop(item.address), number))
    return LockUse(tuple(sections), tuple(sorted(held.values())), tuple(attempts))


def _in_order(run: Run, first: Item, then: Item) -> bool:
    """Whether one item of a CTA is behind another one, of the same lane or of another one."""
    if (first.warp, first.lanes) == (then.warp, then.lanes):
        return True
    behind = known_behind(run.events, {first.place: first.lanes})
    return behind.get(then.place, 0) == then.lanes


def with_numbers(
    locks: Mapping[int, LockWord], attempts: Iterable[Item]
) -> dict[int, LockWord]:  # fmt: skip
    """The locks with what attempts to take them make of them. Raises NotWaiting where one makes a
    taken lock free, or where there are too many numbers."""
    makers: dict[int, dict[tuple[object, ...], Item]] = {at: {} for at in locks}
    for item in attempts:
        makers[item.address][item.operation, item.operands] = item
    found = {}
    for at, lock in locks.items():
        taken: set[int] = set()
        work, exact = [lock.free], True
        while work:
            number = work.pop()
            for item in makers[at].values():
                made = item.after(number)
                if made == lock.free:
                    raise NotWaiting("an attempt to take a lock leaves it free", item.instruction)
                exact = exact and number in (made, lock.free)
                if made not in taken:
                    taken.add(made)
                    work.append(made)
                if len(taken) > NUMBERS_MAX:
                    raise NotWaiting("a lock has too many numbers", item.instruction)
        found[at] = replace(lock, taken=tuple(sorted(taken)), exact=exact)
    return found
