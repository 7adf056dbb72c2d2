"""Which phases of a barrier the others can end: held against every order of what they do to it."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import combinations_with_replacement, product

from titan.proof.commuting import _Others
from titan.sync.state import ENGINE, BarrierStatus, Key, MbarrierState

FULL: Key = ("full", 0)
NOBODY = frozenset[int]()
Arrivals = tuple[int, ...]  # each one arrival, with the bytes that it expects
Completions = tuple[int, ...]
COUNT = 2


@cache
def most_ends(pending: int, transaction: int, arrivals: Arrivals, completions: Completions) -> int:
    """How many phases end at most, over all orders of any of these; written from the PTX rules."""
    if pending == 0 and transaction == 0:
        return 1 + most_ends(COUNT, 0, arrivals, completions)
    found = [0]
    if pending > 0:
        found += [
            most_ends(pending - 1, transaction + arrivals[n], without(arrivals, n), completions)
            for n in range(len(arrivals))
        ]
    found += [
        most_ends(pending, transaction - completions[n], arrivals, without(completions, n))
        for n in range(len(completions))
    ]
    return max(found)


def without(items: tuple[int, ...], place: int) -> tuple[int, ...]:
    return (*items[:place], *items[place + 1 :])


def claimed(
    pending: int, transaction: int, arrivals: Arrivals, completions: Completions, times: int
) -> bool:
    """What `alone` takes to be possible."""
    others = _Others.__new__(_Others)
    status = BarrierStatus.USABLE
    held = MbarrierState(status, ENGINE, COUNT, pending, transaction, 0, NOBODY, True)
    others.barriers = {FULL: held}
    others.arrivals = Counter({FULL: len(arrivals)})
    others.expected = Counter({FULL: sum(arrivals)})
    others.completed = Counter({FULL: sum(completions)})
    return others._ends(FULL, times)


def test_what_can_end_is_never_denied_and_missing_bytes_are_seen() -> None:
    denied = exact = 0
    bags = [
        (arrivals, completions)
        for number in range(5)
        for arrivals in combinations_with_replacement((0, 1, 2), number)
        for count in range(4)
        for completions in combinations_with_replacement((1, 2), count)
    ]
    for pending, transaction in product((0, 1, 2), (0, 1)):
        if (pending, transaction) == (0, 0):
            continue  # it would have ended
        for arrivals, completions in bags:
            ends = most_ends(pending, transaction, arrivals, completions)
            for times in (1, 2):
                said = claimed(pending, transaction, arrivals, completions, times)
                assert said or ends < times, (pending, transaction, arrivals, completions)
                denied += not said
                exact += len(arrivals) >= pending + (times - 1) * COUNT and not said
    assert denied > 1000 and exact > 100
