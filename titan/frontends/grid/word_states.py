"""All states that a word of global memory may go through while the CTAs of a launch use it.

Accesses of one place that are strong are in one order (PTX memory model, "Coherence"), so that what
CTAs do to one word is an interleaving of what each of them does to it, whatever else they do. All
interleavings are explored, without what other words let happen: there are no fewer of them. Of a
wait is found out:

- *what it reads from*: the writes that are behind the last plain store of every state in which it
  may pass, and that store: it reads from one of them, and from the others through a chain of
  atomics ("Observation");
- that it is *stable*: once it may pass, nothing done to the word before it does keeps it from it.
  If all waits are so, and what has been done to a word gives its number, in whatever order, each
  execution does what one does: where one comes to its end, all do.

CTAs that do the same to a word are one class; a state has how many of them are where. Those that
wait for different numbers (CTA n for n arrivals) are classes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from titan.foundation.errors import TitanError
from titan.frontends.grid.asked_words import Item, NotWaiting

STATES_MAX = 100_000
Place = tuple[int, int]  # a CTA, and the number of its item


@dataclass(frozen=True, slots=True)
class _Class:
    """CTAs that do the same to the word; `places` are the numbers of the items of each. `begins`:
    from which of the items on a CTA is at each of them: from before polls by other lanes or warps,
    which it may pass later."""

    ctas: tuple[int, ...]
    items: tuple[Item, ...]
    places: tuple[tuple[int, ...], ...]
    begins: tuple[int, ...]


@dataclass(slots=True)
class WordUse:
    """What is found out of one word."""

    address: int
    reads_from: dict[Place, frozenset[Place]] = field(default_factory=dict)
    states: int = 0


_State = tuple[tuple[tuple[int, ...], ...], int, frozenset[Place] | None]


class _ApartError(TitanError):
    """CTAs that do the same to a word wait for different numbers of it."""

    def __init__(self, ctas: tuple[int, ...]) -> None:
        super().__init__("CTAs wait alike for different numbers")
        self.ctas = ctas


class _Explorer:
    def __init__(
        self,
        address: int,
        start: int,
        uses: Sequence[tuple[int, list[tuple[int, Item]]]],
        passes: Callable[[int, int, int], bool],
        finds: Callable[[int, int, int], None],
        apart: frozenset[int],
    ) -> None:
        self.apart = apart
        self.passes, self.finds = passes, finds
        self.start = start
        self.stores = any(item.operation == "store" for _, own in uses for _, item in own)
        self.classes = list(self._classes(uses))
        self.use = WordUse(address)
        self._passed: dict[tuple[int, int, int], bool] = {}
        self._found: set[tuple[int, int, int]] = set()
        self._reads: dict[tuple[int, int], frozenset[Place]] = {}

    def _classes(self, uses: Sequence[tuple[int, list[tuple[int, Item]]]]) -> Iterator[_Class]:
        groups: dict[object, list[tuple[int, list[tuple[int, Item]]]]] = {}
        for cta, own in uses:
            same = tuple(
                (
                    item.instruction,
                    item.warp,
                    item.lanes,
                    item.asks >= 0,
                    item.operation,
                    item.operands,
                )
                for _, item in own
            )
            alone = self.stores or cta in self.apart
            groups.setdefault((same, cta if alone else -1), []).append((cta, own))
        for members in groups.values():
            items = tuple(item for _, item in members[0][1])
            yield _Class(
                tuple(cta for cta, _ in members),
                items,
                tuple(tuple(at for at, _ in own) for _, own in members),
                tuple(_begin(items, at) for at in range(len(items))),
            )

    def explore(self) -> WordUse:
        """All states. Raises NotWaiting where a wait is not stable, or states are too many."""
        counts = tuple((len(one.ctas), *[0] * len(one.items)) for one in self.classes)
        first: _State = counts, self.start, frozenset() if self.stores else None
        seen, work = {first}, [first]
        numbers = {counts: self.start}
        while work:
            state = work.pop()
            self._observe(state)
            for which, at, after in self._steps(state):
                self._check_stable(state, after, (which, at))
                self._check_between(state, self.classes[which].items[at])
                if numbers.setdefault(after[0], after[1]) != after[1]:
                    raise NotWaiting(
                        "the order of writes decides which number a word has",
                        self.classes[which].items[at].instruction,
                    )
                if after not in seen:
                    seen.add(after)
                    work.append(after)
                    if len(seen) > STATES_MAX:
                        raise NotWaiting(f"a word has more than {STATES_MAX:,} states")
        self.use.states = len(seen)
        for (which, at), read in self._reads.items():
            one = self.classes[which]
            for cta, places in zip(one.ctas, one.places, strict=True):
                self.use.reads_from[cta, places[at]] = read
        return self.use

    def _passes(self, which: int, at: int, number: int) -> bool:
        """Whether the CTAs of a class pass a wait; they are asked one by one."""
        key = which, at, number
        if key not in self._passed:
            one = self.classes[which]
            found = {
                self.passes(cta, places[at], number)
                for cta, places in zip(one.ctas, one.places, strict=True)
            }
            if len(found) > 1:
                raise _ApartError(one.ctas)
            self._passed[key] = found.pop()
        return self._passed[key]

    def _finds(self, which: int, at: int, number: int) -> None:
        """The CTAs of a class may find a number by an atomic."""
        if (which, at, number) not in self._found:
            self._found.add((which, at, number))
            one = self.classes[which]
            for cta, places in zip(one.ctas, one.places, strict=True):
                self.finds(cta, places[at], number)

    def _steps(self, state: _State) -> Iterator[tuple[int, int, _State]]:
        counts, number, window = state
        for which, one in enumerate(self.classes):
            for at, item in enumerate(one.items):
                if not counts[which][at]:
                    continue
                if item.polls and not self._passes(which, at, number):
                    continue
                if item.asks >= 0 and not item.polls:
                    self._finds(which, at, number)
                moved = list(counts[which])
                moved[at] -= 1
                moved[at + 1] += 1
                after = (*counts[:which], tuple(moved), *counts[which + 1 :])
                made, now = number, window
                if item.writes:
                    made = item.after(number)
                    place = one.ctas[0], one.places[0][at]
                    if window is not None:
                        now = frozenset({place}) | (
                            frozenset() if item.operation == "store" else window
                        )
                yield which, at, (after, made, now)

    def _waiting(self, state: _State) -> Iterator[tuple[int, int]]:
        for which, one in enumerate(self.classes):
            for at, item in enumerate(one.items):
                if item.polls and any(state[0][which][one.begins[at] : at + 1]):
                    yield which, at

    def _observe(self, state: _State) -> None:
        for which, at in self._waiting(state):
            if not self._passes(which, at, state[1]):
                continue
            done = self._done(state)
            before = self._reads.get((which, at))
            self._reads[which, at] = done if before is None else before & done

    def _done(self, state: _State) -> frozenset[Place]:
        """What a read reads from; of classes, what all of their CTAs have done."""
        counts, _, window = state
        if window is not None:
            return window
        return frozenset(
            (cta, places[at])
            for which, one in enumerate(self.classes)
            for at, item in enumerate(one.items)
            if item.writes and not any(counts[which][: at + 1])
            for cta, places in zip(one.ctas, one.places, strict=True)
        )

    def _check_stable(self, state: _State, after: _State, mover: tuple[int, int]) -> None:
        if after[1] == state[1]:
            return
        for which, at in self._waiting(state):
            left = sum(state[0][which][self.classes[which].begins[at] : at + 1])
            left -= (which, at) == mover
            kept = not left or not self._passes(which, at, state[1])
            if not kept and not self._passes(which, at, after[1]):
                item = self.classes[which].items[at]
                raise NotWaiting("a CTA may miss the number that it waits for", item.instruction)

    def _check_between(self, state: _State, moved: Item) -> None:
        """No wait passes while some lanes of an add have added, unless it passes before them."""
        for number in moved.between(state[1]):
            for which, at in self._waiting(state):
                if self._passes(which, at, number) != self._passes(which, at, state[1]):
                    item = self.classes[which].items[at]
                    raise NotWaiting("a wait may pass while lanes add", item.instruction)


def _begin(items: Sequence[Item], at: int) -> int:
    """The first of the polls before a poll that other lanes make; they are in no order with it."""
    item, begin = items[at], at
    while item.polls and begin and items[begin - 1].polls:
        before = items[begin - 1]
        if (before.warp, before.lanes) == (item.warp, item.lanes):
            break
        begin -= 1
    return begin


def explore_word(
    address: int,
    start: int,
    items: Sequence[Sequence[Item]],
    passes: Callable[[int, int, int], bool],
    finds: Callable[[int, int, int], None],
) -> WordUse:
    """What is found out of a word that begins with the number `start`.

    `items`: those of each CTA, of all words. `passes`: whether a CTA goes on behind one of its
    items with a number; `finds`: called for each number that an atomic may find. Raises NotWaiting.
    """
    uses = []
    for cta, own in enumerate(items):
        here = [(at, item) for at, item in enumerate(own) if item.address == address]
        if here:
            uses.append((cta, here))
    apart: frozenset[int] = frozenset()
    while True:
        try:
            return _Explorer(address, start, uses, passes, finds, apart).explore()
        except _ApartError as why:
            apart |= frozenset(why.ctas)
