"""Which values pass a memory or register limit, for schedulers (the checker counts on its own)."""

from __future__ import annotations

from dataclasses import dataclass

from titan.scheduling.loop.model import DATA, Loop

Cover = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Excess:
    """Values (operation, copies) that together pass the limit; `team` for registers, else None."""

    cover: Cover
    team: int | None
    what: str


def value_ends(loop: Loop, ii: int, starts: tuple[int, ...]) -> list[int]:
    """End (exclusive) of the value of each operation of iteration 0."""
    ends = list(starts)
    for e in loop.dependences:
        if e.kind == DATA:
            ends[e.source] = max(ends[e.source], starts[e.sink] + e.distance * ii + e.hold_cycles)
    return ends


def events(ii: int, intervals: list[tuple[int, int, int]]) -> list[int]:
    """Rows where a sum over the intervals can be largest: those where one begins."""
    return sorted({begin % ii for begin, end, amount in intervals if end > begin and amount})


def copies_at(ii: int, begin: int, end: int, row: int) -> int:
    """How many copies of `[begin, end)`, one every `ii` cycles, cover `row`."""
    first = begin + (row - begin) % ii
    return 0 if first >= end else (end - first + ii - 1) // ii


def peak(ii: int, intervals: list[tuple[int, int, int]]) -> tuple[int, int]:
    """The largest sum over the rows, and the first row that has it."""
    best, where = 0, 0
    for row in events(ii, intervals):
        total = sum(a * copies_at(ii, b, e, row) for b, e, a in intervals)
        if total > best:
            best, where = total, row
    return best, where


def peak_registers(loop: Loop, ii: int, starts: tuple[int, ...]) -> int:
    """Register words alive at once, over all groups, where they are most."""
    ends = value_ends(loop, ii, starts)
    return peak(
        ii,
        [(s, e, op.registers) for s, e, op in zip(starts, ends, loop.operations, strict=True)],
    )[0]


def least_registers(loop: Loop, ii: int) -> int:
    """A number of register words that are alive at once in every schedule of this interval.

    A value lives as long as the longest delay to a reader, and what it holds there. Over all rows
    the words alive are the sum of words times cycles, so that one row has at least the mean; and
    one value alone has as many copies as intervals begin while it lives.
    """
    lives = [0] * len(loop.operations)
    for e in loop.dependences:
        if e.kind == DATA:
            lives[e.source] = max(lives[e.source], e.delay_cycles + e.hold_cycles)
    held = [
        (operation.registers, life)
        for operation, life in zip(loop.operations, lives, strict=True)
        if operation.registers and life > 0
    ]
    mean = -(-sum(words * life for words, life in held) // ii)
    return max(mean, max((words * -(-life // ii) for words, life in held), default=0))


def excesses(
    loop: Loop,
    ii: int,
    starts: tuple[int, ...],
    teams: tuple[int, ...],
    registers_max: int | None = None,
) -> list[Excess]:
    """One cover for every limit that is passed."""
    ends = value_ends(loop, ii, starts)
    spans = list(zip(starts, ends, strict=True))
    found = []
    for memory, capacity in sorted(loop.limits.items()):
        fixed = sum(
            op.slots * dict(op.footprints).get(memory, 0)
            for op in loop.operations
            if op.slots is not None
        )
        amounts = [
            0 if op.slots is not None else dict(op.footprints).get(memory, 0)
            for op in loop.operations
        ]
        found.extend(_excess(ii, spans, amounts, capacity - fixed, None, memory))
    registers = [op.registers for op in loop.operations]
    for team in range(len(loop.teams)):
        limit = loop.team_words(team)
        if limit is not None:
            mine = [r if teams[v] == team else 0 for v, r in enumerate(registers)]
            found.extend(_excess(ii, spans, mine, limit, team, "registers"))
    if registers_max is not None:
        found.extend(_excess(ii, spans, registers, registers_max, None, "registers"))
    return found


def _excess(
    ii: int,
    spans: list[tuple[int, int]],
    amounts: list[int],
    limit: int,
    team: int | None,
    what: str,
) -> list[Excess]:
    intervals = [(b, e, a) for (b, e), a in zip(spans, amounts, strict=True)]
    most, row = peak(ii, intervals)
    if most <= limit:
        return []
    held = [
        (amount * copies_at(ii, begin, end, row), v, copies_at(ii, begin, end, row))
        for v, (begin, end, amount) in enumerate(intervals)
        if amount and copies_at(ii, begin, end, row)
    ]
    total, cover = 0, []
    for weight, v, copies in sorted(held, key=lambda item: (-item[0], item[1])):
        per = weight // copies
        for count in range(1, copies + 1):
            if total + per * count > limit or count == copies:
                cover.append((v, count))
                total += per * count
                break
        if total > limit:
            break
    return [Excess(_minimal(cover, amounts, limit), team, what)]


def _minimal(cover: list[tuple[int, int]], amounts: list[int], limit: int) -> Cover:
    """Drop or shrink members while the rest still passes the limit."""
    for i in range(len(cover)):
        v, count = cover[i]
        total = sum(amounts[u] * c for u, c in cover)
        spare = total - limit - 1
        drop = min(count, spare // amounts[v])
        cover[i] = (v, count - drop)
    return tuple((v, count) for v, count in cover if count)
