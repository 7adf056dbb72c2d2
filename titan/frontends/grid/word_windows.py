"""Waits for words that are used again, as those of two barriers in turn are.

One word alone allows more than an execution does: of a barrier that counts up to the number of
CTAs, and down again in its next use, a CTA might seem to take its part away before another one has
seen the sum. What keeps it from that is another word, the barrier in between. So where one word
alone does not decide (`word_states.py`), each of its waits gets a *window*: the writes of the word
that one schedule has done when the wait passes. What the launch does in other executions is shown
by induction, along the order of "a CTA does this behind a wait" and "a wait reads from a write" in
an execution; it has no cycles, since nothing is read out of thin air (PTX memory model), and all
writes of these words are atomics whose result depends on the number that they find.

- Every other write of the word *follows* the wait: it is behind it, or behind a wait that reads
  from a write that is, and so on. So the wait does not read from it, and it does not happen before.
- Of the writes in the window, behind those of the CTA's wait before at this word, all orders are
  explored: the wait passes where all have been done, and with no part of them.

Then the wait reads from all of its window, and passes: in an execution that comes to no end, the
wait that the schedule passes first of those that do not has all of its window done, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from titan.frontends.grid.asked_words import Item, NotWaiting
from titan.frontends.grid.word_schedules import Place, played
from titan.frontends.grid.word_states import explore_word

_DEPENDENT = frozenset({"add", "inc", "dec", "and", "or", "xor"})  # make their number of the old
Passes = Callable[[int, int, int], bool]
ReadsFrom = Mapping[Place, frozenset[Place]]


def windows_of(
    addresses: frozenset[int],
    items: Sequence[Sequence[Item]],
    start: Mapping[int, int],
    passes: Passes,
    known: ReadsFrom,
) -> dict[Place, frozenset[Place]]:
    """What each wait for the words at `addresses` reads from in every execution.

    `known`: that of waits for other words. Raises NotWaiting where windows do not decide it.
    """
    return _Windows(addresses, items, start, passes, known).found()


class _Windows:
    def __init__(
        self,
        addresses: frozenset[int],
        items: Sequence[Sequence[Item]],
        start: Mapping[int, int],
        passes: Passes,
        known: ReadsFrom,
    ) -> None:
        self.items, self.start, self.passes = items, start, passes
        self.addresses = addresses
        self.order = _schedule(items, start, passes)
        self.windows = self._guessed()
        self.reads_from: dict[Place, frozenset[Place]] = {**known, **self.windows}

    def found(self) -> dict[Place, frozenset[Place]]:
        """The windows, if they are what the waits read from."""
        self._check_kinds()
        self._check_followed()
        self._check_sums()
        return self.windows

    def _item(self, place: Place) -> Item:
        return self.items[place[0]][place[1]]

    def _guessed(self) -> dict[Place, frozenset[Place]]:
        """The writes that the schedule has done to the word of each wait when it passes."""
        done: dict[int, frozenset[Place]] = {}
        found: dict[Place, frozenset[Place]] = {}
        for place in self.order:
            item = self._item(place)
            if item.address not in self.addresses:
                continue
            before = done.get(item.address, frozenset())
            if item.polls:
                found[place] = before
            if item.changes:
                done[item.address] = before | {place}
        return found

    def _check_kinds(self) -> None:
        for place in self.order:
            item = self._item(place)
            if item.address not in self.addresses or item.polls:
                continue
            if item.asks >= 0 or item.parts > 1 or item.operation not in _DEPENDENT:
                raise NotWaiting("a word that is used again is no sum", item.instruction)

    # ------------------------------------------------------------------- what follows a wait

    def _check_followed(self) -> None:
        """Writes that are not in the window of a wait follow it."""
        writes: dict[int, list[Place]] = {}
        for place in self.order:
            if self._item(place).changes:
                writes.setdefault(self._item(place).address, []).append(place)
        follow = self._following()
        for wait, window in self.windows.items():
            for cta, at in writes.get(self._item(wait).address, ()):
                if (cta, at) not in window and at < follow[wait][cta]:
                    raise NotWaiting(
                        "a CTA may miss the number that it waits for", self._item(wait).instruction
                    )

    def _following(self) -> dict[Place, list[int]]:
        """For each wait from which item on those of each CTA follow it."""
        readers: dict[Place, dict[int, Place]] = {}  # of a write, the first wait of each CTA
        for place in self.order:
            for write in self.reads_from.get(place, ()):
                readers.setdefault(write, {}).setdefault(place[0], place)
        found: dict[Place, list[int]] = {}
        since: list[list[int]] = [[len(own) for own in self.items] for _ in self.items]
        for cta, at in reversed(self.order):  # what follows comes later in the schedule
            behind = since[cta]  # what follows the items of this CTA that are behind this one
            for reader in readers.get((cta, at), {}).values():
                for other, first in enumerate(found[reader]):
                    behind[other] = min(behind[other], first)
            if self.items[cta][at].polls:
                behind[cta] = at + 1
                found[cta, at] = list(behind)
        return found

    # ------------------------------------------------------------------- numbers in a window

    def _check_sums(self) -> None:
        """Each wait passes where all of its window is done, and with no part of it that is more
        than the window of the wait before."""
        groups: dict[tuple[int, frozenset[Place], frozenset[Place]], list[Place]] = {}
        last: dict[tuple[int, int], frozenset[Place]] = {}
        for place in self.order:
            if place not in self.windows:
                continue
            address, window = self._item(place).address, self.windows[place]
            before = last.get((place[0], address), frozenset())
            last[place[0], address] = window
            groups.setdefault((address, before, window), []).append(place)
        for (address, before, window), waits in groups.items():
            self._check_window(address, before, window, waits)

    def _check_window(
        self, address: int, before: frozenset[Place], window: frozenset[Place], waits: list[Place]
    ) -> None:
        number = self.start[address]
        for place in self.order:
            if place in before:
                number = self._item(place).after(number)
        members = (window - before) | set(waits)
        places = [
            [at for at in range(len(own)) if (cta, at) in members]
            for cta, own in enumerate(self.items)
        ]
        kept = [[own[at] for at in at_] for own, at_ in zip(self.items, places, strict=True)]
        use = explore_word(
            address,
            number,
            kept,
            lambda cta, at, given: self.passes(cta, places[cta][at], given),
            lambda cta, at, given: None,
        )
        for cta, at in waits:
            read = use.reads_from.get((cta, places[cta].index(at)), frozenset())
            if not window - before <= {(one, places[one][place]) for one, place in read}:
                raise NotWaiting(
                    "a wait for a word that is used again may pass early",
                    self.items[cta][at].instruction,
                )


def _schedule(
    items: Sequence[Sequence[Item]], start: Mapping[int, int], passes: Passes
) -> list[Place]:
    """A schedule in which all CTAs come to their ends, item by item."""
    at = [0] * len(items)
    order: list[Place] = []

    def first(ready: list[int]) -> int:
        cta = ready[0]
        order.append((cta, at[cta]))
        at[cta] += 1
        return cta

    if played(items, start, passes, first).stuck:
        raise NotWaiting("CTAs wait for each other")
    return order
