"""Do arrays of a call share memory? What a kernel writes has to lie apart from all else.

A byte of one array is `start + stride * index + ... + byte`, with bounds on each index, so a byte
that two arrays share is a solution of one linear equation in bounded numbers. Strides from the
largest down leave few choices for each index where arrays lie as those of frameworks do, views of
one array among them (columns beside columns). A search that takes longer than that ends with "may
share".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

from titan.runtime.arrays import ArrayFacts, CallError

STEPS_MAX = 10_000


def check_apart(arrays: Mapping[str, ArrayFacts], outputs: Iterable[str]) -> None:
    """Raises CallError for an output that shares memory with another array: CTAs write parts of it
    while others still read, in an order that nobody has decided."""
    written = list(outputs)
    for one, other in combinations(arrays, 2):
        if (one in written or other in written) and share_memory(arrays[one], arrays[other]):
            output, second = (one, other) if one in written else (other, one)
            raise CallError(f"{output} shares memory with {second}, which the kernel "
                            f"{'writes' if second in written else 'reads'}, too")  # fmt: skip


def share_memory(one: ArrayFacts, other: ArrayFacts) -> bool:
    """Whether some byte belongs to both arrays, or that is not decided in a few steps."""
    if (one.place, one.number) != (other.place, other.number):
        return False
    if 0 in one.shape or 0 in other.shape:
        return False
    low, high = _ends(one)
    other_low, other_high = _ends(other)
    if high <= other_low or other_high <= low:
        return False
    # The indices of the other array are counted from its end, so that all terms have one sign.
    most: dict[int, int] = {}
    for array in (one, other):
        most[1] = most.get(1, 0) + array.element_bytes - 1
        for extent, stride in zip(array.shape, array.strides, strict=True):
            step = abs(stride) * array.element_bytes
            if step and extent > 1:
                most[step] = most.get(step, 0) + extent - 1
    return _solvable(sorted(most.items(), reverse=True), other_high - 1 - low)


def _ends(array: ArrayFacts) -> tuple[int, int]:
    """The first address of an array, and the one behind its last."""
    reach = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    size = array.element_bytes
    low = array.address + size * sum(one for one in reach if one < 0)
    return low, array.address + size * (sum(one for one in reach if one > 0) + 1)


def _solvable(terms: list[tuple[int, int]], total: int) -> bool:
    """Whether numbers of at most `most` each, times their steps, add up to `total`."""
    rest_most = [0]
    for step, most in reversed(terms):
        rest_most.append(rest_most[-1] + step * most)
    rest_most.reverse()
    work = [(0, total)]
    for _ in range(STEPS_MAX):
        if not work:
            return False
        place, rest = work.pop()
        if rest == 0:
            return True
        if place == len(terms) or rest > rest_most[place]:
            continue
        step, most = terms[place]
        least = max(0, -((rest_most[place + 1] - rest) // step))
        numbers = range(least, min(most, rest // step) + 1)
        if len(numbers) > STEPS_MAX:
            return True
        work += [(place + 1, rest - step * number) for number in numbers]
    return True
